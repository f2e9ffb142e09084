#!/usr/bin/env python3
"""Measures TunnelMesh beside what it is compared with, as ratios of one run.

usage: bench.py [--list|--paste]

--list names the scenarios; --paste copies the report of the last run into
docs/operations/performance.md.

Environment:
  TMESH_BIN       folder with the programs and the measuring programs (build/release/bin)
  BENCH_ONLY      names of scenarios, separated by commas or spaces (all)
  BENCH_SECONDS   length of one timed piece (3); counts shrink with it
  BENCH_REPEATS   interleaved repeats, of which the median counts (3)
  BENCH_OUT       where report.md and report.json go (build/bench)
  BENCH_CHECK     1: a figure that is missed fails the run

Exit: 0 all ran, 1 a scenario broke (or, with BENCH_CHECK=1, missed), 2 usage.
docs/operations/performance.md tells the method.
"""

import contextlib
import os
import sys
import time
import traceback

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
os.environ.setdefault("TMESH_BIN", os.path.join(ROOT, "build", "release", "bin"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import report  # noqa: E402
import rig  # noqa: E402
import scenarios_flow  # noqa: E402
import scenarios_life  # noqa: E402
import scenarios_open  # noqa: E402
import scenarios_peers  # noqa: E402
import scenarios_pools  # noqa: E402
import scenarios_rights  # noqa: E402


class Run:
    """What scenarios share: how long and how often, and the rows and notes they add."""

    def __init__(self):
        self.seconds = float(os.environ.get("BENCH_SECONDS", "3"))
        self.repeats = int(os.environ.get("BENCH_REPEATS", "3"))
        self.rows = []
        self.notes = []
        self.broken = []

    def count(self, full):
        """A number of opens for the chosen length; enough for a 95th percentile to mean something."""
        return max(200, int(full * min(1.0, self.seconds / 3)))

    def row(self, *arguments, **options):
        row = report.Row(*arguments, **options)
        self.rows.append(row)
        print(row.as_line(), flush=True)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            print(f"  {text}", flush=True)

    def interleaved(self, subjects):
        """{name: function} -> {name: [results]}; every repeat takes each subject once."""
        results = {name: [] for name in subjects}
        for _ in range(self.repeats):
            for name, measure in subjects.items():
                results[name].append(measure())
        return results


def chosen(scenarios):
    wanted = os.environ.get("BENCH_ONLY", "").replace(",", " ").split()
    unknown = [name for name in wanted if name not in scenarios]
    if unknown:
        print(f"bench: no scenario {', '.join(unknown)}; there are {', '.join(scenarios)}", file=sys.stderr)
        sys.exit(2)
    return {name: f for name, f in scenarios.items() if not wanted or name in wanted}


def paste(results, page):
    with open(results, encoding="utf-8") as f:
        text = f.read()
    with open(page, encoding="utf-8") as f:
        old = f.read()
    with open(page, "w", encoding="utf-8") as f:
        f.write(report.pasted(old, text))


def main():
    scenarios = {**scenarios_open.SCENARIOS, **scenarios_flow.SCENARIOS, **scenarios_life.SCENARIOS,
                 **scenarios_peers.SCENARIOS, **scenarios_pools.SCENARIOS, **scenarios_rights.SCENARIOS}
    if sys.argv[1:] == ["--list"]:
        for name, function in scenarios.items():
            print(f"{name:12} {function.__doc__.splitlines()[0]}")
        return 0
    out = os.environ.get("BENCH_OUT", os.path.join(ROOT, "build", "bench"))
    if sys.argv[1:] == ["--paste"]:
        paste(os.path.join(out, "report.md"), os.path.join(ROOT, "docs", "operations", "performance.md"))
        return 0
    if sys.argv[1:]:
        print(__doc__.splitlines()[2], file=sys.stderr)
        return 2
    run = Run()
    facts = {**report.machine(), "revision": report.revision(ROOT), "seconds": run.seconds, "repeats": run.repeats,
             "open_files": rig.raise_file_limit()}
    for name, function in chosen(scenarios).items():
        print(f"== {name}: {function.__doc__.splitlines()[0]}", flush=True)
        begin = time.monotonic()
        try:
            function(run)
        except Exception as error:  # one broken scenario must not hide the others
            traceback.print_exc()
            run.broken.append(name)
            run.row(name, "did not complete", deferred=f"broke: {type(error).__name__}")
        print(f"   {time.monotonic() - begin:.1f} s", flush=True)
    report.write(out, facts, run.rows, run.notes)
    missed = [row for row in run.rows if row.verdict == report.MISSED]
    print(f"bench: {len(run.rows)} rows, {len(missed)} missed, {len(run.broken)} scenarios broke")
    return 1 if run.broken or (missed and os.environ.get("BENCH_CHECK") == "1") else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
