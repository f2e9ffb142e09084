#!/usr/bin/env python3
"""Checks docs/lessons.md: every test it names exists, and every rule of the data plane has a row.

usage: lessons.py ROOT | --self-test

A name is a test function of CMocka, of Python's unittest, the second word of a GoogleTest, or a
program of ctest. Rules are those of docs/references.md in the ranges below. Prints each problem
and exits 1; --self-test proves that it can fail.
"""

import os
import re
import sys

# What data plane, storage and entries have to do with; the others have their tests beside their subjects.
WANTED = re.compile(
    r"^(?:R(?:[1-9]|1[0-35-9]|2[0-57]|28|29|3[01])|W[123]|Z(?:[1-9]|1[013456])|P-[A-K]\d+|P-L3)$")
ROW = re.compile(r"^\| ((?:(?:[RWZ]|P-[A-Z])\d+(?:, )?)+) \| (.*) \|$")
DEFINITIONS = (
    re.compile(r"\bcmocka_unit_test(?:_\w+)?\(\s*(\w+)"),
    re.compile(r"^\s+def (test_\w+)\(", re.M),
    re.compile(r"^TEST(?:_F|_P)?\(\s*\w+,\s*(\w+)\s*\)", re.M),
    re.compile(r"\btmesh_test\((\w+)"),
    re.compile(r"^static void (\w+)\(void\*\* state\)", re.M),
)


def tests(root):
    found = set()
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        for name in files:
            if name.endswith((".c", ".cpp", ".py")) or name == "CMakeLists.txt":
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    text = f.read()
                for definition in DEFINITIONS:
                    found.update(definition.findall(text))
    return found


def rules_of_references(text):
    names = re.findall(r"^\| ((?:[RWZ]|P-[A-Z])\d+) \|", text, re.M)
    return {n for n in names if WANTED.match(n)}


def problems(lessons, references, known):
    said = []
    seen = set()
    for number, line in enumerate(lessons.splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        rules = row.group(1).split(", ")
        seen.update(rules)
        names = re.findall(r"`([^`]+)`", row.group(2))
        if not names:
            said.append(f"docs/lessons.md:{number}: {row.group(1)} has no test")
        said += [f"docs/lessons.md:{number}: there is no test {n}" for n in names if n not in known]
    said += [f"docs/lessons.md: {rule} has no row" for rule in sorted(rules_of_references(references) - seen)]
    return said


def self_test():
    references = "| R1 | x |\n| R2 | x |\n| R14 | elsewhere |\n"
    good = "| R1 | `a_test` |\n| R2 | `test_b`, `CamelCase` |\n"
    known = {"a_test", "test_b", "CamelCase"}
    assert not problems(good, references, known)
    assert problems(good, references, known - {"test_b"})
    assert problems(good.replace("| R2", "| R3"), references, known)
    assert problems("| R1 | soon |\n" + good, references, known)
    print("lessons.py: can fail")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = sys.argv[1]

    def read(path):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            return f.read()

    said = problems(read("docs/lessons.md"), read("docs/references.md"), tests(root))
    print("\n".join(said) if said else "docs/lessons.md: every rule has a test, and every test is there")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
