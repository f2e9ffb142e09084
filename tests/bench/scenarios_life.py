"""Scenarios about many and about dying: idle streams, a killed server, a crowd of agents."""

import contextlib
import datetime
import os
import re
import signal
import time

import harness
import rig
from report import median, spread

IDLE = {
    "agent": {"agent.streams.max_active": 16384, "agent.streams.max_pending_dials": 1024},
    "server": {"server.stream.max_active_per_agent": 16384},
}
CROWD = 200
# All of them come from one address and with one identity, which a server bounds.
CROWDED = {"server": {"server.agents.max_connections_per_agent": 512, "server.trusted_proxies": ["127.0.0.0/8"]}}
DOWN_S = 1.0


def idle_scenario(run):
    """10,000 idle streams: user memory per stream in each process, and back after close"""
    count = 10_000 if run.seconds >= 1 else 500
    with rig.Bed() as bed:
        if rig.raise_file_limit() < count + 500:
            run.row("idle", f"user memory per stream, {count} idle", deferred="the open-file limit is too low")
            return
        target = bed.tool("target")
        mesh = bed.mesh(IDLE)
        held = ["--target", target.port, "--proxy", mesh.socks_port, "--count"]
        # Tables and pools have their usual size once there was some traffic.
        warm = rig.Load("idle", *held, 200)
        warm.next()
        warm.close()
        rig.settle(mesh.pids)
        time.sleep(1)
        before = [rig.user_bytes(pid) for pid in mesh.pids]
        load = rig.Load("idle", *held, count)
        try:
            opened = load.next()
            rig.settle(mesh.pids)
            full = [rig.user_bytes(pid) for pid in mesh.pids]
        finally:
            load.close()
        failed = sum(opened["errors"].values())
        run.row("idle", f"idle streams that could not be opened, of {count}", failed, at_most=0,
                detail=f"opened in {opened['seconds']:.1f} s {opened['errors'] or ''}".rstrip())
        back = [None] * 3
        begin = time.monotonic()
        while time.monotonic() - begin < 5.0 and None in back:
            time.sleep(0.1)
            for i, pid in enumerate(mesh.pids):
                if back[i] is None and rig.user_bytes(pid) <= before[i] * 1.10:
                    back[i] = time.monotonic() - begin
        after = [rig.user_bytes(pid) for pid in mesh.pids]
        for i, role in enumerate(rig.ROLES):
            run.row("idle", f"user memory per idle stream, {role}", (full[i] - before[i]) / max(1, opened["held"]),
                    " bytes", at_most=2048, detail=f"{before[i] / 2**20:.1f} -> {full[i] / 2**20:.1f} MiB")
        for i, role in enumerate(rig.ROLES):
            when = "not within 5 s" if back[i] is None else f"within 10 % after {back[i]:.1f} s"
            run.row("idle", f"user memory after close / before, {role}", after[i] / before[i], "x", at_most=1.1,
                    detail=f"{after[i] / 2**20:.1f} MiB; {when}")
    run.note(f"idle: {', '.join(f'{k} {v}' for values in IDLE.values() for k, v in values.items())}")


def first_good_open(mesh, target_port, limit_s=30.0):
    """Seconds until an open gets the first byte of its target."""
    begin = time.monotonic()
    while time.monotonic() - begin < limit_s:
        with contextlib.suppress(OSError, harness.SocksRefused):
            with harness.socks_connect(mesh.socks_port, "127.0.0.1", target_port, timeout_s=0.25) as s:
                s.sendall(b"G 1\n")
                if s.recv(1):
                    return time.monotonic() - begin
        time.sleep(0.01)
    raise RuntimeError("no open succeeded after the server was back")


def killed(mesh):
    mesh.programs["server"].stop(signal.SIGKILL)
    time.sleep(DOWN_S)


def restart_scenario(run):
    """kill -9 the server, return after 1 s: the first good open"""
    took = []
    for _ in range(run.repeats):
        # New programs each time: what failed in an earlier round would lengthen the waits,
        # which a link that was up for a minute shortens again.
        with rig.Bed() as bed:
            target = bed.tool("target")
            mesh = bed.mesh()
            first_good_open(mesh, target.port)
            time.sleep(2)
            killed(mesh)
            begin = time.monotonic()
            mesh.start("server")
            first_good_open(mesh, target.port)
            took.append(time.monotonic() - begin)
    run.row("restart", "first good open after the server's return", max(took), " s", at_most=1.5,
            detail=f"worst of {len(took)} ({spread(took)}), from the start of the process")


UP = re.compile(r"^(\S+Z) \w+ agent_link_up ", re.MULTILINE)


def links_up_s(text):
    """When agents' links came up, as the server's log says."""
    return [datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp() for stamp in UP.findall(text)]


class Crowd:
    """Real agents with one configuration and an instance id each."""

    def __init__(self, mesh, count):
        self.mesh, self.agents = mesh, []
        text = mesh.read("agent")
        for i in range(count):
            path = os.path.join(mesh.config, f"agent-{i}.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write(re.sub(r'instance_id: "agent-[0-9a-f]{8}', f'instance_id: "agent-{i:08x}', text))
            os.chmod(path, 0o600)
            self.agents.append(rig.Wrapped((), "agent", mesh, config=path, log=f"agent-{i}"))

    def close(self):
        for agent in self.agents:
            agent.process.kill()
        for agent in self.agents:
            agent.process.wait()
            agent.log.close()


def storm_scenario(run):
    """200 agents whose server was killed: how their reconnects spread"""
    count = CROWD if run.seconds >= 1 else 10
    with rig.Bed() as bed:
        mesh = bed.mesh(CROWDED, start=("server",))
        crowd = Crowd(mesh, count)
        bed.stack.callback(crowd.close)

        def ups():
            # The log is appended over restarts.
            return links_up_s(mesh.programs["server"].text())

        ratios = []
        harness.wait_until(lambda: len(ups()) >= count, f"{count} agents", 120)
        for _ in range(run.repeats):
            time.sleep(3)
            before = len(ups())
            killed(mesh)
            back = time.time()
            mesh.start("server")
            harness.wait_until(lambda n=before: len(ups()) >= n + count, f"{count} agents' return", 120)
            times = sorted(ups()[before:])[:count]
            buckets = histogram(times)
            first, last = times[0] - back, times[-1] - back
            ratios.append(max(buckets) / (sum(buckets) / len(buckets)))
        run.row("storm", f"reconnects of {count} agents, peak / mean per 100 ms", median(ratios), "x", at_most=3.0,
                detail=f"{spread(ratios)}; back {first:.2f} to {last:.2f} s after the server; per 100 ms: "
                       + " ".join(map(str, buckets)))
    run.note("storm: one agent identity with an instance id each; server.agents.max_connections_per_agent 512, "
             "server.trusted_proxies 127.0.0.0/8")


def histogram(times, width_s=0.1):
    buckets = [0] * (int((times[-1] - times[0]) / width_s) + 1)
    for t in times:
        buckets[int((t - times[0]) / width_s)] += 1
    return buckets


SCENARIOS = {"idle": idle_scenario, "restart": restart_scenario, "storm": storm_scenario}
