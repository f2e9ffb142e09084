"""Scenarios about opens: how fast, how dear, and undisturbed by targets that hang."""

import contextlib
import os
import threading
import time

import dns
import harness
import rig
from report import median, spread

# Nothing may be refused at 256 and 1024 opens at once: every bound on the way is raised.
RAISED = {
    "agent": {"agent.streams.max_concurrent_dials": 256, "agent.streams.max_pending_dials": 1024,
              "agent.streams.max_active": 16384},
    "server": {"server.stream.max_concurrent_opens": 1024, "server.stream.max_opens_per_link": 1024,
               "server.stream.max_pending_opens": 2048, "server.stream.max_active_per_agent": 16384},
}
# One dial at a time, nothing kept, no answer to an open: what the product is compared with.
BASELINE = {
    "agent": {"agent.streams.max_concurrent_dials": 1, "agent.capabilities.open_result": False},
    "server": {"server.capabilities.open_result": False, "server.authorization_cache.enabled": False},
    "client": {"client.capabilities.open_result": False},
}
NAME_DELAY_S = 0.020
# A name that resolves to loopback is refused unless the policy names the network.
BY_NAME = {"agent.policy.allow": ["127.0.0.0/8"]}


def merged(*settings):
    out = {}
    for each in settings:
        for role, values in each.items():
            out.setdefault(role, {}).update(values)
    return out


def told(settings):
    return ", ".join(f"{key} {str(value).lower()}" for values in settings.values() for key, value in values.items())


def opens(target, concurrency, count, proxy=0, name=""):
    arguments = ["--target", target, "--proxy", proxy, "--concurrency", concurrency, "--count", count]
    return rig.tool_json("load", "open", *arguments, *(["--name", name] if name else []))[0]


def p95(results):
    return [r["first_byte_ms"]["p95"] for r in results]


def errors(results):
    return sum(sum(r["errors"].values()) for r in results)


def what_failed(results):
    kinds = sorted({kind for r in results for kind in r["errors"]})
    return f"failed: {', '.join(kinds)}" if kinds else ""


def opens_scenario(run):
    """first byte at 32, 256 and 1024 opens at once; CPU per open"""
    for concurrency, settings, full in ((32, {}, 6000), (256, RAISED, 9000), (1024, RAISED, 9000)):
        with rig.Bed() as bed:
            target = bed.tool("target")
            mesh, legacy = bed.mesh(settings), bed.mesh(merged(RAISED, BASELINE))
            count = max(run.count(full), 2 * concurrency)
            cpu_us = []
            for each in (mesh, legacy):  # pools and caches as they will be
                opens(target.port, 16, 300, each.socks_port)

            def ours(mesh=mesh, target=target, concurrency=concurrency, count=count, cpu_us=cpu_us):
                before = rig.cpu_s(mesh.pids)
                result = opens(target.port, concurrency, count, mesh.socks_port)
                cpu_us.append((rig.cpu_s(mesh.pids) - before) / max(1, result["first_byte_ms"]["n"]) * 1e6)
                return result

            got = run.interleaved({
                "direct": lambda t=target, c=concurrency, n=count: opens(t.port, c, n), "ours": ours,
                "legacy": lambda t=target, c=concurrency, n=count, m=legacy: opens(t.port, c, n, m.socks_port)})
            direct, through, old = (p95(got[x]) for x in ("direct", "ours", "legacy"))
            at_once = f"{concurrency} opens at once"
            run.row("opens", f"first byte p95, {at_once}, through / direct", median(through) / median(direct), "x",
                    at_most=2.7 if concurrency == 256 else None,
                    detail=f"{median(through):.2f} / {median(direct):.2f} ms ({spread(through)} / {spread(direct)})")
            run.row("opens", f"first byte p95, {at_once}, ours / baseline mode", median(through) / median(old), "x",
                    detail=f"{median(through):.2f} / {median(old):.2f} ms; {errors(got['legacy'])} failed there")
            run.row("opens", f"p99 / p95, {at_once}",
                    median([r["first_byte_ms"]["p99"] / r["first_byte_ms"]["p95"] for r in got["ours"]]), "x",
                    at_most=1.5, detail=f"slowest {max(r['first_byte_ms']['max'] for r in got['ours']):.1f} ms")
            run.row("opens", f"failed or refused, {at_once}", errors(got["ours"]), at_most=0,
                    detail=f"of {count * run.repeats} {what_failed(got['ours'])}".rstrip())
            run.row("opens", f"CPU per open, three processes, {at_once}", median(cpu_us), " us", at_most=300,
                    detail=f"{spread(cpu_us)}; {median([r['per_s'] for r in got['ours']]):.0f} opens/s, direct "
                           f"{median([r['per_s'] for r in got['direct']]):.0f}/s")
    run.note(f"opens at 256 and 1024: {told(RAISED)}")
    run.note(f"baseline mode: {told(BASELINE)} (in opens, with the other raised bounds)")


HUNG_PAUSE_S = 0.3  # until the agent dials all of them


class Hung:
    """CONNECTs through the mesh to a port that never answers, in the background."""

    def __init__(self, mesh, count):
        self.target = harness.HungTarget()
        self.threads = [threading.Thread(target=self.dial, args=(mesh.socks_port,)) for _ in range(count)]
        for thread in self.threads:
            thread.start()
        time.sleep(HUNG_PAUSE_S)

    def dial(self, port):
        # Without answers to opens the CONNECT succeeds at once; closed, it would be no dial.
        with contextlib.suppress(harness.SocksRefused, OSError):
            with harness.socks_connect(port, "127.0.0.1", self.target.port) as s:
                s.recv(1)

    def alive(self):
        return sum(thread.is_alive() for thread in self.threads)

    def close(self):
        for thread in self.threads:
            thread.join()
        self.target.close()


def beside_hung(mesh, hung_count, measure):
    """The measurement, and how many of the dials still hung when it was over."""
    hung = Hung(mesh, hung_count)
    try:
        result = measure()
        return result, hung.alive()
    finally:
        hung.close()


def hung_scenario(run):
    """8 and 40 hung dials beside 32 opens"""
    with rig.Bed() as bed:
        target = bed.tool("target")
        mesh = bed.mesh()
        count = run.count(3000)
        opens(target.port, 16, 300, mesh.socks_port)
        still = {8: [], 40: []}

        def burst():
            return opens(target.port, 32, 32, mesh.socks_port)

        def alone():
            # Single bursts scatter widely; the calm case can afford several. Each comes after the
            # same pause as beside hung dials: caches are as cold.
            bursts = []
            for _ in range(5):
                time.sleep(HUNG_PAUSE_S)
                bursts.append(burst())
            return {"burst": median(p95(bursts)), "bursts": bursts,
                    "loop": opens(target.port, 32, count, mesh.socks_port)}

        def beside(n):
            # The burst comes while the hung dials are young: afterwards the agent has moved
            # them out of the way, and a closed loop of thousands of opens shows nothing of
            # the wait, because only the 32 that meet it wait.
            def measure():
                first = burst()
                return {"burst": p95([first])[0], "bursts": [first],
                        "loop": opens(target.port, 32, count, mesh.socks_port)}

            result, alive = beside_hung(mesh, n, measure)
            still[n].append(alive)
            return result

        got = run.interleaved({"alone": alone, 8: lambda: beside(8), 40: lambda: beside(40)})

        def loops(key):
            return [r["loop"] for r in got[key]]

        def bursts(key):
            return [r["burst"] for r in got[key]]

        calm = max(b["first_byte_ms"]["max"] for r in got["alone"] for b in r["bursts"])
        for n in (8, 40):
            failed = errors(loops(n)) + errors([b for r in got[n] for b in r["bursts"]])
            run.row("hung", f"first byte p95 of a burst of 32 opens, 0.3 s after {n} hung dials / alone",
                    median(bursts(n)) / median(bursts("alone")), "x", at_most=1.1,
                    detail=f"{median(bursts(n)):.2f} / {median(bursts('alone')):.2f} ms ({spread(bursts(n))} / "
                           f"{spread(bursts('alone'))}); {failed} failed")
            run.row("hung", f"the same, closed loop of {count} opens right behind the burst",
                    median(p95(loops(n))) / median(p95(loops("alone"))), "x", at_most=1.1,
                    detail=f"{median(p95(loops(n))):.2f} / {median(p95(loops('alone'))):.2f} ms, {min(still[n])} of "
                           f"{n} still hung at the end; hides waits that few opens meet")
            worst = max(b["first_byte_ms"]["max"] for r in got[n] for b in r["bursts"])
            run.row("hung", f"what {n} slow dials add to the slowest open of a burst (K6)", worst - calm, " ms",
                    at_most=1000)


class NamedMesh:
    """A mesh whose agent asks the bench's own DNS server, in a mount namespace of its own."""

    def __init__(self, bed, settings):
        self.dns = dns.SlowDns(NAME_DELAY_S)
        bed.stack.callback(self.dns.close)
        self.mesh = bed.mesh(merged(settings, {"agent": BY_NAME}), start=("server", "client"))
        resolv = os.path.join(self.mesh.folder, "resolv.conf")
        with open(resolv, "w", encoding="ascii") as f:
            f.write(f"nameserver {self.dns.address}\noptions ndots:1\n")
        self.mesh.start("agent", wrap=["unshare", "--mount", "sh", "-c",
                                       'mount --bind "$0" /etc/resolv.conf && exec "$@"', resolv])
        self.mesh.wait_ready()


def baseline_scenario(run):
    """32 CONNECTs by name against baseline mode, with and without one slow dial (K5, K6)"""
    if not dns.available():
        reason = "needs root: a mount namespace for resolv.conf and port 53 on a loopback address"
        run.row("baseline", "32 CONNECTs by name / baseline mode (K5)", deferred=reason)
        return
    with rig.Bed() as bed:
        target = bed.tool("target")
        ours = NamedMesh(bed, {})
        legacy = NamedMesh(bed, BASELINE)

        def burst(named):
            # One burst of 32 is too few for a 95th percentile: several, one after the other.
            results = [opens(target.port, 32, 32, named.mesh.socks_port, "t%.bench.test") for _ in range(3)]
            return {"p95": median(p95(results)), "max": max(r["first_byte_ms"]["max"] for r in results),
                    "failed": errors(results)}

        def slow(named, dials):
            result, alive = beside_hung(named.mesh, dials, lambda: {
                **opens(target.port, 32, 32, named.mesh.socks_port, "t%.bench.test")})
            return {"p95": result["first_byte_ms"]["p95"], "max": result["first_byte_ms"]["max"],
                    "failed": errors([result]), "alive": alive}

        got = run.interleaved({
            "ours": lambda: burst(ours), "legacy": lambda: burst(legacy),
            "ours slow": lambda: slow(ours, 1), "legacy slow": lambda: slow(legacy, 1),
            "ours 40": lambda: slow(ours, 40)})
        value = {name: median([r["p95"] for r in results]) for name, results in got.items()}
        failed = {name: sum(r["failed"] for r in results) for name, results in got.items()}
        for what, mine, theirs in (("", "ours", "legacy"), (" with one slow dial", "ours slow", "legacy slow")):
            run.row("baseline", f"32 CONNECTs by name, first byte p95{what} / baseline mode (K5)",
                    value[mine] / value[theirs], "x", at_most=0.5,
                    detail=f"{value[mine]:.1f} / {value[theirs]:.1f} ms; failed {failed[mine]} / {failed[theirs]}")
        calm = max(r["max"] for r in got["ours"])
        for name, dials in (("ours slow", 1), ("ours 40", 40)):
            what = f"what {dials} slow dial{'s' * (dials > 1)} of 5 s add to the slowest of 32 others (K6)"
            run.row("baseline", what,
                    max(r["max"] for r in got[name]) - calm, " ms", at_most=1000,
                    detail=f"failed {failed[name]}; still hung {min(r['alive'] for r in got[name])}")
    run.note(f"baseline: {told(BASELINE)}; names are answered after {NAME_DELAY_S * 1e3:.0f} ms")


def ends_scenario(run):
    """a refused target and a half-closed stream"""
    with rig.Bed() as bed:
        target = bed.tool("target")
        mesh = bed.mesh()
        closed = harness.free_port()
        got = run.interleaved({
            "refused": lambda: rig.tool_json("load", "refused", "--target", closed, "--proxy", mesh.socks_port)[0],
            "half": lambda: rig.tool_json("load", "half", "--target", target.port, "--proxy", mesh.socks_port)[0]})
        run.row("ends", "refused targets answered with SOCKS5 reply 5", sum(
            r["errors"].get("SOCKS5 reply 5", 0) for r in got["refused"]), at_least=run.repeats,
                detail=f"of {run.repeats}, after {median([r['seconds'] for r in got['refused']]) * 1e3:.2f} ms")
        run.row("ends", "bytes that reach a client after it half-closed", min(r["received"] for r in got["half"]),
                at_least=1_000_000, detail="of 1000000")


SCENARIOS = {"opens": opens_scenario, "hung": hung_scenario, "baseline": baseline_scenario, "ends": ends_scenario}
