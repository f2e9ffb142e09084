"""Starts and stops what a scenario needs: measuring programs, a mesh, samples of its cost.

The mesh is the end-to-end tests' own (quickstart configuration, ports of the kernel's
choice); TMESH_BIN names the folder with the programs and the measuring programs.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
ROLES = ("client", "server", "agent")
GIB = float(1 << 30)


def raise_file_limit():
    """As many open files as this user may have; the programs inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (1 << 17, hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Tool:
    """A measuring program that runs until it is closed and prints its port first."""

    def __init__(self, name, *arguments):
        self.process = subprocess.Popen([os.path.join(harness.BIN, f"bench_{name}"), *map(str, arguments)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench_{name} did not start")
        self.port = int(line)

    @property
    def pid(self):
        return self.process.pid

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def tool_json(name, *arguments, limit_s=300):
    """The lines of JSON that a measuring program prints, when it has ended."""
    done = subprocess.run([os.path.join(harness.BIN, f"bench_{name}"), *map(str, arguments)], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s)
    if done.returncode != 0:
        raise RuntimeError(f"bench_{name} {arguments}: {done.returncode} {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Load:
    """bench_load as a process whose lines are read one by one."""

    def __init__(self, mode, *arguments):
        self.process = subprocess.Popen([os.path.join(harness.BIN, "bench_load"), mode, *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def next(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench_load ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def cpu_s(pids):
    """User and system time of processes together, all threads."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total * TICK_S


def user_bytes(pid):
    """Anonymous memory in use: heap and stacks, not the program's file or the kernel's buffers."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            for line in f:
                if line.startswith("Anonymous:"):
                    return int(line.split()[1]) * 1024
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"no memory figure for process {pid}")


class Bed:
    """What one scenario has running; everything goes with it."""

    def __init__(self):
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def tool(self, name, *arguments):
        tool = Tool(name, *arguments)
        self.stack.callback(tool.close)
        return tool

    def mesh(self, settings=None, edit=None, **options):
        """The three programs; settings: {role: {"dotted.key": value}}, given as flags would be."""
        def change(mesh):
            if edit:
                edit(mesh)
            for role, values in (settings or {}).items():
                configure(mesh, role, values)

        mesh = BenchMesh(edit=change, **options)
        self.stack.callback(mesh.close)
        return mesh

    def chain(self, target_port):
        """Three bare relays in a row; the port of the first and all pids."""
        pids = []
        for _ in range(3):
            relay = self.tool("chain", "--to", target_port)
            target_port = relay.port
            pids.append(relay.pid)
        return target_port, pids

class BenchMesh(harness.Mesh):
    def start(self, name, env=None, wrap=()):
        """wrap: a command that ends by becoming the program it is given."""
        if not wrap:
            return super().start(name, env)
        self.programs[name] = Wrapped(wrap, name, self)
        return self.programs[name]

    @property
    def pids(self):
        return [self.programs[role].process.pid for role in ROLES]


class Wrapped(harness.Program):
    """A program behind a command, or with another configuration and log than the mesh's own."""

    def __init__(self, wrap, name, mesh, config=None, log=None):
        self.name = name
        self.log_path = os.path.join(mesh.folder, f"{log or name}.log")
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [*wrap, os.path.join(harness.BIN, f"tunnelmesh-{name}"), "run", "--config", config or mesh.path(name)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)


def configure(mesh, role, values):
    """Sets dotted keys in a configuration file by nesting: YAML takes JSON in flow style."""
    tree = {}
    for key, value in values.items():
        node = tree
        *path, last = key.split(".")
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    # Keys of the file's own top level mapping get their children in block style.
    for top, children in tree.items():
        lines = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in children.items())
        if isinstance(children, dict) and f"\n{top}:\n" in "\n" + mesh.read(role):
            mesh.rewrite(role, lambda text, top=top, lines=lines: ("\n" + text).replace(
                f"\n{top}:\n", f"\n{top}:\n{lines}", 1)[1:])
        else:
            mesh.append(role, f"{top}: {json.dumps(children)}\n")


def settle(pids, limit_s=5.0):
    """Until the processes use next to no CPU, so that one measurement does not pay for the last."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before = cpu_s(pids)
        time.sleep(0.2)
        if cpu_s(pids) - before <= 2 * TICK_S:
            return
