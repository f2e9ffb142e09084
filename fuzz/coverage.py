#!/usr/bin/env python3
"""Line coverage of the fuzz targets against the floors of coverage.txt.

usage: coverage.py BUILD [FOUND]

BUILD holds fuzz/fuzz_replay_<target> programs with clang's source coverage (`make
fuzz-coverage` makes it). Each runs its committed corpus; with FOUND (the folder `found`
of a fuzzing build) also what the fuzzer found, FOUND/<target>. Prints one table. Fails
when a target is below its floor, is not in the table, or names a file it does not contain.
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def tool(name):
    for candidate in (f"{name}-19", name):
        for folder in os.environ["PATH"].split(os.pathsep):
            if os.access(os.path.join(folder, candidate), os.X_OK):
                return candidate
    sys.exit(f"{name} is missing: run deploy/setup.sh check")


def read_table():
    table = {}
    with open(os.path.join(HERE, "coverage.txt"), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) < 3 or not words[1].isdigit() or words[0] in table:
                sys.exit(f"coverage.txt:{number}: wants: target floor file...")
            table[words[0]] = (int(words[1]), words[2:])
    return table


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def measure(build, target, folders, scratch):
    """Line summaries of a target by path in the repository."""
    program = os.path.join(build, "fuzz", f"fuzz_replay_{target}")
    raw, merged = os.path.join(scratch, target + ".raw"), os.path.join(scratch, target + ".data")
    run(program, *folders, env={**os.environ, "LLVM_PROFILE_FILE": raw})
    run(tool("llvm-profdata"), "merge", "-sparse", raw, "-o", merged)
    report = json.loads(run(tool("llvm-cov"), "export", "-summary-only", f"-instr-profile={merged}", program))
    return {os.path.relpath(f["filename"], ROOT): f["summary"]["lines"] for f in report["data"][0]["files"]}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build, found = sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else None
    table = read_table()
    prefix = "fuzz_replay_"
    built = {n[len(prefix):] for n in os.listdir(os.path.join(build, "fuzz")) if n.startswith(prefix)}
    faults = [f"{t}: not in coverage.txt" for t in sorted(built - set(table))]
    faults += [f"{t}: not built" for t in sorted(set(table) - built)]
    print(f"{'target':<14} {'floor':>5} {'lines':>12} {'reached':>8}  files below 90 %")
    with tempfile.TemporaryDirectory() as scratch:
        for target in sorted(built & set(table)):
            floor, files = table[target]
            folders = [os.path.join(HERE, "corpus", target)]
            if found and os.path.isdir(os.path.join(found, target)) and os.listdir(os.path.join(found, target)):
                folders.append(os.path.join(found, target))
            lines = measure(build, target, folders, scratch)
            absent = [f for f in files if f not in lines]
            faults += [f"{target}: {f} is not part of it" for f in absent]
            own = {f: lines[f] for f in files if f in lines}
            count = sum(x["count"] for x in own.values())
            covered = sum(x["covered"] for x in own.values())
            reached = 100.0 * covered / count if count else 0.0
            low = [f"{f} {x['percent']:.0f}" for f, x in own.items() if x["percent"] < 90]
            print(f"{target:<14} {floor:>4}% {covered:>5} / {count:<5} {reached:>6.1f} %  {', '.join(low)}")
            if reached < floor:
                faults.append(f"{target}: {reached:.1f} % is below its floor of {floor} %")
    for fault in faults:
        print(f"fuzz/coverage.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
