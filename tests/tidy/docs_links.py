#!/usr/bin/env python3
"""Checks that the documents point to things that exist.

In every *.md of the project: a relative link leads to a file or folder, and its #anchor to
a heading there; a word in backticks that looks like a path of the repository is one. Both
READMEs have the same number of headings and of code blocks, and the blocks hold the same
lines but for comments. Every rule that a source cites ("requirement E3", "LESSONS R1") stands
in a table of docs/references.md. Prints each problem as file:line and exits 1. With
--self-test it proves that it can fail.
"""

import glob
import os
import re
import sys
import tempfile

# First parts of a path of the repository. Other words with a slash ("build/bin",
# "application/json") are somebody else's.
TOP_FOLDERS = ("core", "cpp", "cmd", "migrations", "deploy", "fuzz", "tests", "docs", ".ci")
TOP_FILES = ("Makefile", "CMakeLists.txt", "CMakePresets.json", "LICENSE")
SKIPPED_FOLDERS = {".git", ".deps", "build"}
SOURCE_FOLDERS = ("core", "cpp", "cmd", "fuzz", "tests", "migrations")
SOURCE_ENDINGS = (".c", ".h", ".cpp", ".hpp", ".sql", ".sh")
REFERENCES = "docs/references.md"

FENCE = re.compile(r"^\s*(```+|~~~+)(.*)$")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
CODE = re.compile(r"(`+)(.+?)\1")
RULE = r"(?:P-)?[A-Z]\d+"
CITATION = re.compile(
    r"\b(?:requirements?|lessons?|invariants?)\s+(%s(?:(?:,\s*|\s+and\s+|\s+to\s+|-)%s)*)" % (RULE, RULE), re.IGNORECASE
)
PATH = re.compile(r"^(?:%s)/[\w./*{},<>-]*$" % "|".join(re.escape(f) for f in TOP_FOLDERS))


def documents(root):
    found = []
    for directory, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        found += [os.path.relpath(os.path.join(directory, f), root) for f in sorted(files) if f.endswith(".md")]
    return found


class Document:
    """One file, cut into its prose, its headings and its code blocks."""

    def __init__(self, root, path):
        self.path = path
        self.prose = []  # (line number, text) outside of code blocks
        self.headings = []
        self.blocks = []  # lists of lines
        self.open_fence_line = 0
        fence = None
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for number, line in enumerate(source, 1):
                line = line.rstrip("\n")
                mark = FENCE.match(line)
                if fence is not None:
                    if mark and mark.group(1).startswith(fence) and not mark.group(2).strip():
                        fence = None
                    else:
                        self.blocks[-1].append(line)
                    continue
                if mark:
                    fence = mark.group(1)
                    self.open_fence_line = number
                    self.blocks.append([])
                    continue
                heading = HEADING.match(line)
                if heading:
                    self.headings.append(heading.group(2))
                self.prose.append((number, line))
        self.is_fence_open = fence is not None

    def anchors(self):
        """The names that a page shown by common Git hosts gives its headings."""
        names = set()
        for heading in self.headings:
            text = LINK.sub(lambda m: m.group(0).split("](")[0].lstrip("!["), heading)
            text = re.sub(r"[`*]", "", text).lower()
            name = "".join(c for c in text if c.isalnum() or c in " -_").replace(" ", "-")
            unique, n = name, 0
            while unique in names:
                n += 1
                unique = f"{name}-{n}"
            names.add(unique)
        return names


def braces(text):
    """"a/{b,c}.md" -> "a/b.md", "a/c.md"."""
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        return [text]
    return [p for part in found.group(1).split(",") for p in braces(text[: found.start()] + part + text[found.end() :])]


def exists(root, path):
    if "*" in path:
        return bool(glob.glob(os.path.join(glob.escape(root), path)))
    return os.path.exists(os.path.join(root, path))


def check_links(root, document, cache, problems):
    base = os.path.dirname(document.path)
    for number, line in document.prose:
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(base, path)) if path else document.path
            if full.startswith("..") or not os.path.exists(os.path.join(root, full)):
                problems.append(f"{document.path}:{number}: the link leads nowhere: {target}")
                continue
            if not anchor:
                continue
            if full not in cache:
                cache[full] = Document(root, full).anchors() if full.endswith(".md") else set()
            if anchor not in cache[full]:
                problems.append(f"{document.path}:{number}: no such heading: {target}")


def check_paths(root, document, problems):
    for number, line in document.prose:
        for _, word in CODE.findall(line):
            word = re.sub(r":\d+$", "", word.strip())
            is_path = word in TOP_FILES or PATH.match(word)
            # "<name>" stands for any name.
            if not is_path or "<" in word:
                continue
            for path in braces(word):
                if not exists(root, path):
                    problems.append(f"{document.path}:{number}: no such path: {path}")


def check_citations(root, problems):
    known = set()
    if exists(root, REFERENCES):
        with open(os.path.join(root, REFERENCES), encoding="utf-8") as source:
            known = set(re.findall(r"^\| (%s) \|" % RULE, source.read(), re.MULTILINE))
    for folder in SOURCE_FOLDERS:
        for directory, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f != "corpus")
            for name in sorted(files):
                if not name.endswith(SOURCE_ENDINGS):
                    continue
                full = os.path.join(directory, name)
                with open(full, encoding="utf-8", errors="replace") as source:
                    for number, line in enumerate(source, 1):
                        for rule in re.findall(RULE, " ".join(CITATION.findall(line))):
                            if rule not in known:
                                path = os.path.relpath(full, root)
                                problems.append(f"{path}:{number}: {rule} is not in {REFERENCES}")


def without_comments(block):
    lines = [re.sub(r"\s+#\s.*$|^#\s.*$", "", line).rstrip() for line in block]
    return [line for line in lines if line]


def check_pair(first, second, problems):
    where = f"{second.path}:1: not like {first.path}:"
    if len(first.headings) != len(second.headings):
        problems.append(f"{where} {len(second.headings)} headings, not {len(first.headings)}")
    if len(first.blocks) != len(second.blocks):
        problems.append(f"{where} {len(second.blocks)} code blocks, not {len(first.blocks)}")
        return
    for i, (a, b) in enumerate(zip(first.blocks, second.blocks), 1):
        if without_comments(a) != without_comments(b):
            problems.append(f"{where} code block {i} holds other lines")


def check(root):
    problems = []
    cache = {}
    pages = {path: Document(root, path) for path in documents(root)}
    for page in pages.values():
        if page.is_fence_open:
            problems.append(f"{page.path}:{page.open_fence_line}: the code block is not closed")
        check_links(root, page, cache, problems)
        check_paths(root, page, problems)
    check_citations(root, problems)
    pair = [pages.get(name) for name in ("README.md", "README.zh-CN.md")]
    if None in pair:
        problems.append("README.md:1: one of README.md and README.zh-CN.md is missing")
    else:
        check_pair(*pair, problems)
    return problems


PLANTED = {
    "README.md": "# A\n\nSee [b](docs/b.md#second-part), `core/x.c`, `core/{x,y}.c`, `docs/*.md`, `build/bin/z`.\n"
    "\n```sh\nmake demo  # one\n```\n",
    "README.zh-CN.md": "# A\n## B\n\n```sh\nmake test\n```\n",
    "docs/b.md": "# B\n## Second part\n[a](../README.md) [gone](gone.md) [web](https://example.com/x)\n"
    "[there](b.md#third-part) `core/none.c` `tests/<name>/x.c`\n```\n`core/inside.c` [x](inside.md)\n```\n",
    "docs/open.md": "# C\n```\nnever closed\n",
    "docs/references.md": "# R\n\n| E3 | windows |\n| P-C5 | life |\n",
    "core/x.c": "/* requirement E3, LESSONS P-C5 */\n/* requirements E3 and Q9 */\n",
    "core/y.c": "",
}
EXPECTED = {
    "README.zh-CN.md:1: not like README.md: 2 headings, not 1",
    "README.zh-CN.md:1: not like README.md: code block 1 holds other lines",
    "docs/b.md:3: the link leads nowhere: gone.md",
    "docs/b.md:4: no such heading: b.md#third-part",
    "docs/b.md:4: no such path: core/none.c",
    "docs/open.md:2: the code block is not closed",
    "core/x.c:2: Q9 is not in docs/references.md",
}


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in PLANTED.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as out:
                out.write(text)
        found = check(root)
        if set(found) != EXPECTED or len(found) != len(EXPECTED):
            print("self test failed:", *found, sep="\n")
            return 1
    print(f"documents self test: {len(EXPECTED)} planted problems found")
    return 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = check(root)
    for problem in problems:
        print(problem)
    print(f"documents: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
