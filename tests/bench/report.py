"""Rows of results, and what they are written as."""

import json
import os
import platform
import statistics
import subprocess

MET, MISSED, REPORTED, DEFERRED = "met", "missed", "reported", "deferred"
# Around the results in docs/operations/performance.md.
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


class Row:
    """One line of the report. value is compared with the reach by `at_most` or `at_least`, if given."""

    def __init__(self, scenario, what, value=None, unit="", at_most=None, at_least=None, detail="", deferred=None):
        self.scenario, self.what, self.value, self.unit = scenario, what, value, unit
        self.at_most, self.at_least, self.detail, self.deferred = at_most, at_least, detail, deferred

    @property
    def verdict(self):
        if self.deferred:
            return DEFERRED
        if self.at_most is None and self.at_least is None:
            return REPORTED
        good = (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least)
        return MET if good else MISSED

    @property
    def reach(self):
        low = "" if self.at_least is None else f">= {show(self.at_least)}"
        high = "" if self.at_most is None else f"<= {show(self.at_most)}"
        return ", ".join(x for x in (low, high) if x)

    def as_dict(self):
        return {"scenario": self.scenario, "what": self.what, "value": self.value, "unit": self.unit,
                "at_least": self.at_least, "at_most": self.at_most, "verdict": self.verdict,
                "detail": self.detail, "deferred": self.deferred}

    def as_line(self):
        value = f"deferred: {self.deferred}" if self.deferred else f"{show(self.value)}{self.unit}"
        return f"{self.scenario:12} {self.what:60} {value:>14}  {self.reach:12} {self.verdict:9} {self.detail}"


def show(value):
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 0.1 else f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"


def median(values):
    return statistics.median(values)


def spread(values):
    """Least to most, for the detail of a row: what one run is worth on this machine."""
    return f"{show(min(values))}-{show(max(values))}"


def machine():
    """What the figures were measured on; no names of the machine."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    with open("/proc/meminfo", encoding="ascii") as f:
        memory_gib = int(f.readline().split()[1]) / (1 << 20)
    load = os.getloadavg()
    return {"cpu": model, "cores": os.cpu_count(), "memory_gib": round(memory_gib, 1),
            "kernel": platform.release().partition("-")[0], "load_before": [round(x, 2) for x in load]}


def revision(root):
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def markdown(facts, rows, notes):
    lines = [
        f"Measured on {facts['cores']} cores of {facts['cpu']}, {facts['memory_gib']} GiB, Linux "
        f"{facts['kernel']}, load {facts['load_before'][0]} before the run; revision {facts['revision']}; "
        f"{facts['repeats']} interleaved repeats of {facts['seconds']} s, medians (least-most in the last column).",
        "",
        "| scenario | figure | measured | reach | verdict | detail |",
        "| --- | --- | ---: | --- | --- | --- |",
    ]
    for row in rows:
        value = f"deferred: {row.deferred}" if row.deferred else f"{show(row.value)}{row.unit}"
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in (
            row.scenario, row.what, value, row.reach, row.verdict, row.detail)) + " |")
    if notes:
        lines += ["", "Settings and remarks of this run:", ""]
        lines += [f"- {note}" for note in notes]
    return "\n".join(lines) + "\n"


def write(folder, facts, rows, notes):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as f:
        f.write(markdown(facts, rows, notes))
    with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as f:
        json.dump({"facts": facts, "rows": [row.as_dict() for row in rows], "notes": notes}, f, indent=1)
        f.write("\n")


def pasted(page, results):
    """The page with its results replaced; ValueError where it has no markers."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError("no markers for the results")
    return f"{head}{begin}\n\n{results.strip()}\n\n{end}{tail}"
