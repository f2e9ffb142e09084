#!/usr/bin/env python3
"""Checks that the gates cannot be passed by accident.

usage: gates.py ROOT | --self-test

- Every target of the Makefile has a line in `make help` and one in docs/HACKING.md, and is phony.
- The Makefile's shell stops at a failed command and at a failed part of a pipe; so does every shell
  script (`set -euo pipefail`). A script that looks at exit codes itself says so: `set -u` and
  "exit codes are looked at here".
- Every test_*.py of tests/e2e is run by ctest, and every fuzz target has a corpus and a floor.
Prints each problem and exits 1; --self-test proves that it can fail.
"""

import glob
import os
import re
import sys

OWN_CARE = "exit codes are looked at here"


def makefile_problems(makefile, hacking):
    said = []
    targets = set()
    for line in makefile.splitlines():
        match = re.match(r"^([a-z][a-z0-9 -]*):(?!=)", line)
        if match:
            targets.update(match.group(1).split())
    listed = set()
    for names in re.findall(r"^([a-z][a-z0-9 -]*):.*## ", makefile, re.M):
        listed.update(names.split())
    phony = set(re.sub(r"\\\n", " ", makefile).partition(".PHONY:")[2].splitlines()[0].split())
    documented = set()
    for cell in re.findall(r"^\| ([^|]*) \|", hacking.partition("\n## make")[2].partition("\n## ")[0], re.M):
        documented.update(re.findall(r"`([a-z0-9-]+)`", cell))
    said += [f"Makefile: {t} has no line in make help" for t in sorted(targets - listed)]
    said += [f"Makefile: {t} is not phony" for t in sorted(targets - phony)]
    said += [f"Makefile: {t} is phony and no target" for t in sorted(phony - targets)]
    said += [f"docs/HACKING.md: the target {t} is missing" for t in sorted(targets - documented)]
    said += [f"docs/HACKING.md: there is no target {t}" for t in sorted(documented - targets)]
    if not re.search(r"^\.SHELLFLAGS := -eu -o pipefail -c$", makefile, re.M):
        said.append("Makefile: its shell goes on behind a failed command of a pipe")
    return said


def script_problems(name, text):
    if re.search(r"^set -euo pipefail$", text, re.M):
        return []
    if re.search(r"^set -u$", text, re.M) and OWN_CARE in text:
        return []
    # Plain sh, for machines without bash, has no pipefail.
    if text.startswith("#!/bin/sh\n") and re.search(r"^set -eu$", text, re.M):
        return []
    return [f"{name}: goes on behind a failed command"]


def read(root, *path):
    with open(os.path.join(root, *path), encoding="utf-8") as f:
        return f.read()


def problems(root):
    said = makefile_problems(read(root, "Makefile"), read(root, "docs", "HACKING.md"))
    scripts = [os.path.join(root, ".ci", "run")]
    for folder in ("deploy", "fuzz", "tests"):
        scripts += glob.glob(os.path.join(root, folder, "**", "*.sh"), recursive=True)
    for script in sorted(scripts):
        said += script_problems(os.path.relpath(script, root), read(script))
    run_by_ctest = set(re.findall(r"\w+", read(root, "tests", "e2e", "CMakeLists.txt")))
    for path in sorted(glob.glob(os.path.join(root, "tests", "e2e", "test_*.py"))):
        name = os.path.basename(path)[len("test_"):-len(".py")]
        if not {name, f"test_{name}"} & run_by_ctest:
            said.append(f"tests/e2e/test_{name}.py is run by nobody")
    floors = re.findall(r"^(\w+) +\d+ ", read(root, "fuzz", "coverage.txt"), re.M)
    targets = re.findall(r"^tmesh_fuzz\((\w+) ", read(root, "fuzz", "CMakeLists.txt"), re.M)
    said += [f"fuzz/coverage.txt: no floor for {t}" for t in sorted(set(targets) - set(floors))]
    said += [f"fuzz/coverage.txt: {t} is no target" for t in sorted(set(floors) - set(targets))]
    for target in targets:
        if not glob.glob(os.path.join(root, "fuzz", "corpus", target, "*")):
            said.append(f"fuzz/corpus/{target} is empty")
    return said


def self_test():
    makefile = ".SHELLFLAGS := -eu -o pipefail -c\n.PHONY: a b c\na: ## x\n\tb\nb c: a ## y\n"
    hacking = "# H\n\n## make\n\n| target | does |\n| --- | --- |\n| `a` | `x` |\n| `b`, `c` | y |\n\n## more\n"
    assert not makefile_problems(makefile, hacking)
    assert makefile_problems(makefile.replace("-o pipefail ", ""), hacking)
    assert makefile_problems(makefile + "d:\n", hacking)
    assert makefile_problems(makefile.replace("a: ## x", "a:"), hacking)
    assert makefile_problems(makefile.replace("PHONY: a", "PHONY:"), hacking)
    assert makefile_problems(makefile, hacking.replace("`c`", "c"))
    assert makefile_problems(makefile, hacking.replace("`c`", "`c`, `d`"))
    assert not script_problems("s", "#!/bin/bash\nset -euo pipefail\n")
    assert script_problems("s", "#!/bin/bash\nset -e\n")
    assert script_problems("s", "#!/bin/bash\nset -u\n")
    assert not script_problems("s", "#!/bin/sh\nset -eu\n")
    assert script_problems("s", "#!/bin/bash\nset -eu\n")
    print("gates.py: can fail")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    said = problems(sys.argv[1])
    print("\n".join(said) if said else "the gates are closed")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
