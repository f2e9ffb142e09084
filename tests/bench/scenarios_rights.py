"""Scenario about deciding opens: with kept decisions and without, on both databases."""

import os

import cluster
import dns
import rig
from report import median, spread
from scenarios_open import BY_NAME, errors, merged, opens, told

AT_ONCE = 32
ROUND_TRIP_MS = 5
OFF = {"server": {"server.authorization_cache.enabled": False}}
ASKED = ("kept", "off")


class Ends:
    """What one side of a comparison has: the client's entry and the process that decides."""

    def __init__(self, socks_port, server_pid):
        self.socks_port = socks_port
        self.server_pid = server_pid


class Names:
    """A DNS server for agents, so that each open can ask for a name of its own. Without the
    rights for that only one target is asked for."""

    def __init__(self, bed):
        self.dns = dns.SlowDns(0) if dns.available() else None
        if self.dns:
            bed.stack.callback(self.dns.close)

    def wrap(self, folder):
        if not self.dns:
            return []
        path = os.path.join(folder, "resolv.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"nameserver {self.dns.address}\noptions ndots:1\n")
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', path]


def on_sqlite(bed, names):
    ends = {}
    for kind in ASKED:
        settings = merged({"agent": BY_NAME}, OFF if kind == "off" else {})
        mesh = bed.mesh(settings, start=("server", "client"))
        mesh.start("agent", wrap=names.wrap(mesh.folder))
        mesh.wait_ready()
        ends[kind] = Ends(mesh.socks_port, mesh.programs["server"].process.pid)
    return ends


def on_mysql(bed, names):
    """Two servers on one MariaDB behind a long line, each with an agent and a client of its own."""
    both = cluster.Cluster(count=2)
    bed.stack.callback(both.close)
    owner = both.administrator["username"]
    agent_id = both.admin("agent", "create", "home", "--owner", owner)["id"]
    both.admin("policy", "create", "--agent", "home", "--allow", "*:*")
    tokens = {role: both.admin("token", "create", "--type", role, *more)["secret"]
              for role, more in (("agent", ["--agent", "home"]), ("client", ["--owner", owner]))}
    line = bed.tool("delay", "--to", both.db.port, "--ms", ROUND_TRIP_MS / 2)
    ends = {}
    for kind, name in zip(ASKED, both.names, strict=True):
        path = both.path(name, "server.yaml")
        with open(path, encoding="utf-8") as f:
            text = f.read().replace(f":{both.db.port})", f":{line.port})")
        if kind == "off":
            text += "  authorization_cache:\n    enabled: false\n"
        both.write(name, "server.yaml", text)
        server = both.start(name)
        folder = f"agent-{kind}"
        os.mkdir(both.path(folder))
        config = both.write(folder, "agent.yaml", f"""agent:
  server_url: "ws://127.0.0.1:{both.ports[name]}/ws/agent"
  id: "{agent_id}"
  token: "{tokens['agent']}"
  policy:
    allow: ["127.0.0.0/8"]
""")
        both.programs[folder] = rig.Wrapped(names.wrap(both.path(folder)), "agent", both, config, folder)
        port = both.start_client(name, agent_id, tokens["client"], f"client-{kind}")
        ends[kind] = Ends(port, server.process.pid)
    return ends


def compare(run, database, ends, target, names):
    count = run.count(3000)
    rounds = iter(range(1_000_000))
    cpu_us = {}

    def measure(what, kind):
        # A name that nobody asked for before: what was kept of earlier rounds does not help.
        name = f"t%.r{next(rounds)}.bench.test" if what == "other" else ""
        before = rig.cpu_s([ends[kind].server_pid])
        result = opens(target.port, AT_ONCE, count, ends[kind].socks_port, name)
        cpu_us.setdefault((what, kind), []).append((rig.cpu_s([ends[kind].server_pid]) - before) / count * 1e6)
        return result

    for kind in ASKED:  # pools, prepared statements and the one decision, as they will be
        opens(target.port, 16, 300, ends[kind].socks_port)
    questions = {"same": "one target", **({"other": "another name each"} if names.dns else {})}
    got = run.interleaved({(what, kind): lambda w=what, k=kind: measure(w, k)
                           for what in questions for kind in ASKED})
    for what, told_as in questions.items():
        kept, off = ([r["per_s"] for r in got[what, kind]] for kind in ASKED)
        run.row("authorised", f"opens/s, {told_as}, {database}, decisions kept / cache off", median(kept) / median(off),
                "x", at_least=1.0 if what == "same" else None,
                detail=f"{median(kept):.0f} / {median(off):.0f} opens/s ({spread(kept)} / {spread(off)}); CPU of the "
                       f"server {median(cpu_us[what, 'kept']):.0f} / {median(cpu_us[what, 'off']):.0f} us per open; "
                       f"failed {errors(got[what, 'kept'])} / {errors(got[what, 'off'])}")
    if not names.dns:
        run.row("authorised", f"opens/s, another name each, {database}, decisions kept / cache off",
                deferred="needs root: a mount namespace for resolv.conf and port 53 on a loopback address")


def authorised_scenario(run):
    """opens/s with kept decisions (warm, cold) and without, on SQLite and on MySQL at 5 ms"""
    with rig.Bed() as bed:
        target, names = bed.tool("target"), Names(bed)
        compare(run, "SQLite", on_sqlite(bed, names), target, names)
    if not cluster.is_available():
        run.row("authorised", "opens/s on MySQL", deferred="no MariaDB is installed")
        return
    with rig.Bed() as bed:
        target, names = bed.tool("target"), Names(bed)
        compare(run, f"MySQL at {ROUND_TRIP_MS} ms", on_mysql(bed, names), target, names)
    run.note(f"authorised: {AT_ONCE} opens at once; cache off is {told(OFF)}; names are answered at once; the "
             f"database's line takes {ROUND_TRIP_MS} ms there and back")


SCENARIOS = {"authorised": authorised_scenario}
