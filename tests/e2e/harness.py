"""Runs the three real programs on loopback for the end-to-end tests.

Everything lives in a temporary folder; ports come from the kernel; every wait has a
limit at least ten times what it should take. On failure the logs are printed.
"""

import atexit
import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

BIN = os.environ.get("TMESH_BIN", os.path.join(os.path.dirname(__file__), "..", "..", "build", "bin"))
BIN = os.path.abspath(BIN)
WAIT_S = 30.0


_held_ports = []  # locks; gone with this process


def free_port():
    """A port that a program may listen on later: below those that the kernel gives to
    outgoing connections, which would take it before the program does, and never the same
    one for two tests that run at the same time."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first_outgoing = int(f.read().split()[0])
    last = first_outgoing - 1 if first_outgoing > 12000 else 65535
    folder = os.path.join(tempfile.gettempdir(), f"tmesh-ports-{os.getuid()}")
    os.makedirs(folder, exist_ok=True)
    for _ in range(1000):
        port = random.randint(last - 10000, last)
        lock = open(os.path.join(folder, str(port)), "wb")  # noqa: SIM115
        with contextlib.suppress(OSError), socket.socket() as s:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            s.bind(("127.0.0.1", port))
            _held_ports.append(lock)
            return port
        lock.close()
    raise AssertionError("no free port")


_closed = []  # sockets that are bound and do not listen


def closed_port(host="127.0.0.1"):
    """A port that nobody listens on, nor will while this process lives: it is taken."""
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.bind((host, 0))
    _closed.append(s)
    return s.getsockname()[1]


_started = set()  # processes of this test that nobody has stopped


def started(process):
    """Ends with the test, whatever happens to it: a process that stays holds the test's
    output, and whoever reads that waits for it."""
    _started.add(process)
    return process


@atexit.register
def _end_started():
    for process in _started:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()


def wait_until(condition, what, limit_s=WAIT_S):
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit_s:.0f} s for {what}")
        time.sleep(0.02)


def can_connect(port, host="127.0.0.1"):
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), timeout=1).close()
        return True
    return False


def is_listening(port):
    """Without a connection, for which an entry would open a stream."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in f)


def http_get(port, path, host=None):
    """Status and body of one plain request, without following anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{port}'}\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


class Program:
    """One running binary with its log."""

    def __init__(self, name, arguments, folder, env=None):
        self.name = name
        self.log_path = os.path.join(folder, f"{name}.log")
        self.log = open(self.log_path, "ab")
        self.process = started(subprocess.Popen(
            [os.path.join(BIN, f"tunnelmesh-{name}"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            # A place of its own for the status socket.
            env={**os.environ, "XDG_RUNTIME_DIR": folder, **(env or {})},
        ))

    def alive(self):
        return self.process.poll() is None

    def text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, how=signal.SIGTERM):
        if self.alive():
            self.process.send_signal(how)
        try:
            return self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not stop within {WAIT_S} s of signal {how}") from None
        finally:
            self.log.close()


class Mesh:
    """quickstart, then server, agent and client; `allow` is its list of patterns.

    tunnels: entries of the client besides the SOCKS5 one, each a dictionary of the keys of
    client.tunnels[]. What it does not say: agent_id is the mesh's agent, listen a free port
    of 127.0.0.1, name the protocol (then protocol-2 ...). `ports[name]` is where it listens.
    client_env: variables of the client, for the credentials of its entries.
    """

    def __init__(self, allow=("*:*",), edit=None, start=("server", "agent", "client"), tunnels=(), client_env=None):
        self.folder = tempfile.mkdtemp(prefix="tmesh-e2e-")
        self.config = os.path.join(self.folder, "mesh")
        self.http_port = free_port()
        self.socks_port = free_port()
        self.ports = {"socks5": self.socks_port}
        self.programs = {}
        self.client_env = client_env or {}
        self.tcp_entries = []
        command = [
            os.path.join(BIN, "tunnelmesh-server"), "quickstart", "--dir", self.config, "--agent", "home",
            "--listen", f"127.0.0.1:{self.http_port}", "--socks5", f"127.0.0.1:{self.socks_port}",
        ]
        for pattern in allow:
            command += ["--allow", pattern]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"quickstart failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        self.quickstart_output = done.stdout
        self.agent_id = re.search(r"\n\s*id:\s*\"?([^\"\s]+)", self.read("agent")).group(1)
        for tunnel in tunnels:
            self.append("client", self.entry(**tunnel))
        if edit:
            edit(self)
        for name in start:
            self.start(name)
        if {"server", "agent", "client"} <= set(start):
            self.wait_ready()

    def path(self, name):
        return os.path.join(self.config, f"{name}.yaml")

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def rewrite(self, name, change):
        text = change(self.read(name))
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def append(self, name, text):
        self.rewrite(name, lambda old: old + text)

    def entry(self, **keys):
        """One more item of client.tunnels as text (`append` it to the client's file); its port, unless
        `listen` is given, is in `ports` from now on."""
        protocol = keys["protocol"]
        taken = sum(1 for name in self.ports if name == protocol or name.startswith(protocol + "-"))
        name = keys.setdefault("name", protocol if taken == 0 else f"{protocol}-{taken + 1}")
        if "listen" not in keys:
            self.ports[name] = free_port()
            keys["listen"] = f"127.0.0.1:{self.ports[name]}"
            if protocol != "udp":
                self.tcp_entries.append(name)
        keys.setdefault("agent_id", self.agent_id)
        # JSON is YAML.
        return f"    - {json.dumps(keys)}\n"

    def start(self, name, env=None):
        if env is None and name == "client":
            env = self.client_env
        self.programs[name] = Program(name, ["run", "--config", self.path(name)], self.folder, env)
        if name == "server":
            wait_until(lambda: can_connect(self.http_port) or self.dead(name), "the server's listener")
        if name == "client":
            wait_until(lambda: can_connect(self.socks_port) or self.dead(name), "the client's entry")
            for entry in self.tcp_entries:
                wait_until(lambda: is_listening(self.ports[entry]) or self.dead(name), f"the client's entry {entry}")
        return self.programs[name]

    def dead(self, name):
        if not self.programs[name].alive():
            raise AssertionError(f"{name} ended:\n{self.programs[name].text()}")
        return False

    def wait_ready(self, probe_port=None):
        """Until an open through the whole path gets an answer of the agent."""
        target = EchoTarget()
        try:
            def works():
                for name in ("server", "agent", "client"):
                    self.dead(name)
                with contextlib.suppress(OSError, SocksRefused):
                    s = socks_connect(self.socks_port, "127.0.0.1", probe_port or target.port)
                    s.close()
                    return True
                return False
            wait_until(works, "the first stream through the mesh")
        finally:
            target.close()

    def admin(self, *arguments):
        done = subprocess.run(
            [os.path.join(BIN, "tunnelmesh-server"), *arguments, "--config", self.path("server"), "--json"],
            capture_output=True, text=True, timeout=WAIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def status(self, name):
        """What `status` of the client or the agent tells, or None; the system may run others."""
        done = subprocess.run([os.path.join(BIN, f"tunnelmesh-{name}"), "status", "--json", "--config", self.path(name)],
                              capture_output=True, text=True, timeout=WAIT_S, check=False,
                              env={**os.environ, "XDG_RUNTIME_DIR": self.folder})
        pid = self.programs[name].process.pid
        return next((r for r in map(json.loads, done.stdout.splitlines()) if r["pid"] == pid), None)

    def wait_idle(self, name):
        """Until what ran before is over on every link of the client or the agent: it counts in the choice of one."""
        wait_until(lambda: (r := self.status(name)) and not any(link["streams"] for link in r["links"]),
                   f"the {name}'s last streams to end")

    def logs(self):
        return "".join(f"--- {name}\n{p.text()}" for name, p in self.programs.items())

    def close(self, expect_exit=0):
        codes = {}
        for name in ("client", "agent", "server"):
            if name in self.programs:
                codes[name] = self.programs[name].stop()
        logs = self.logs()
        shutil.rmtree(self.folder, ignore_errors=True)
        bad = {n: c for n, c in codes.items() if c != expect_exit}
        if bad or "ERROR: AddressSanitizer" in logs or "runtime error:" in logs or "handles_leaked" in logs:
            raise AssertionError(f"exit codes {codes}, expected {expect_exit}\n{logs}")


class SocksRefused(Exception):
    def __init__(self, reply):
        super().__init__(f"SOCKS5 reply {reply}")
        self.reply = reply


def receive_exactly(s, n):
    data = b""
    while len(data) < n:
        chunk = s.recv(n - len(data))
        if not chunk:
            raise OSError(f"end of stream after {len(data)} of {n} bytes")
        data += chunk
    return data


def socks_address(host):
    for family, kind in ((socket.AF_INET, 1), (socket.AF_INET6, 4)):
        with contextlib.suppress(OSError):
            return bytes([kind]) + socket.inet_pton(family, host)
    name = host.encode()
    return bytes([3, len(name)]) + name


def socks_connect(port, host, target_port, timeout_s=WAIT_S, pieces=None, user=None, command=1):
    """A connected socket, or SocksRefused with the reply code. pieces: send byte runs of this size."""
    s = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
    try:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send(data):
            if pieces is None:
                s.sendall(data)
            else:
                for i in range(0, len(data), pieces):
                    s.sendall(data[i:i + pieces])

        send(b"\x05\x01\x02" if user else b"\x05\x01\x00")
        version, method = receive_exactly(s, 2)
        if (version, method) != (5, 2 if user else 0):
            raise SocksRefused(f"method {method}")
        if user:
            name, password = (x.encode() for x in user)
            send(bytes([1, len(name)]) + name + bytes([len(password)]) + password)
            if receive_exactly(s, 2)[1] != 0:
                raise SocksRefused("password")
        send(bytes([5, command, 0]) + socks_address(host) + struct.pack(">H", target_port))
        _, reply, _, kind = receive_exactly(s, 4)
        size = {1: 4, 4: 16}[kind] if kind != 3 else receive_exactly(s, 1)[0]
        receive_exactly(s, size + 2)
        if reply != 0:
            raise SocksRefused(reply)
        return s
    except BaseException:
        s.close()
        raise


class Target:
    """A TCP server: `handle(socket)` runs in a thread for every connection; `served` counts those that ended."""

    # Nobody gets the port of an earlier one: what a program still knows of that (an answer, a state) is not met again.
    _ports = set()

    def __init__(self, handle=None, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        while True:
            self.listener = socket.create_server((host, 0), family=family, backlog=512)
            self.port = self.listener.getsockname()[1]
            if self.port not in Target._ports:
                break
            self.listener.close()
        Target._ports.add(self.port)
        self.accepted = []  # addresses of those who came
        self.served = 0
        self.errors = []
        if handle:
            self.handle = handle
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                s, peer = self.listener.accept()
            except OSError:
                return
            self.accepted.append(peer)
            threading.Thread(target=self._serve, args=(s,), daemon=True).start()

    def _serve(self, s):
        with s:
            s.settimeout(WAIT_S * 4)
            try:
                self.handle(s)
            except OSError as error:
                self.errors.append(error)
        self.served += 1

    def handle(self, s):
        raise NotImplementedError

    def connections(self):
        """How many came before this call: a listener's queue keeps its order, so one's own connection tells."""
        with socket.create_connection(self.listener.getsockname()[:2], timeout=WAIT_S) as mine:
            wait_until(lambda: mine.getsockname() in self.accepted, "the target to accept")
            self.accepted.remove(mine.getsockname())
            return len(self.accepted)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class EchoTarget(Target):
    """Returns what it gets; ends when the peer ends."""

    def handle(self, s):
        while chunk := s.recv(65536):
            s.sendall(chunk)


def udp_socket():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))
    s.settimeout(WAIT_S)
    return s


class UdpEcho:
    """Sends every datagram back to where it came from."""

    def __init__(self):
        self.socket = udp_socket()
        self.socket.settimeout(0.5)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.port = self.socket.getsockname()[1]
        self.sources = set()
        self.count = 0
        self.closed = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.closed:
            with contextlib.suppress(TimeoutError, ConnectionError):
                data, source = self.socket.recvfrom(65_536)
                self.sources.add(source)
                self.count += 1
                self.socket.sendto(data, source)

    def close(self):
        self.closed = True
        self.thread.join()
        self.socket.close()


class HungTarget:
    """A port whose connects hang: its accept queue is full and nobody accepts."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.fillers = []
        for _ in range(4):
            s = socket.socket()
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                s.connect(("127.0.0.1", self.port))
            self.fillers.append(s)
        time.sleep(0.1)  # until the kernel queued them

    def close(self):
        for s in self.fillers:
            s.close()
        self.listener.close()


class MeshTest(unittest.TestCase):
    """One mesh for a class of tests; `options` are Mesh's arguments."""

    options = {}
    mesh = None

    @classmethod
    def setUpClass(cls):
        cls.mesh = Mesh(**cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.mesh.close()

    def tearDown(self):
        outcome = getattr(self, "_outcome", None)
        failed = outcome and any(error for _, error in getattr(outcome, "errors", []) if error)
        failed = failed or (outcome and getattr(outcome.result, "failures", []) + getattr(outcome.result, "errors", []))
        if failed:
            print(self.mesh.logs()[-8000:])
