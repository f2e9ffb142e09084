"""Counts, sizes and scripted clients for the longer end-to-end tests.

A test that repeats something takes its count from `often(quick, long)`: the quick one in
`make test`, the long one in `make nightly` (TMESH_LONG=1)."""

import contextlib
import json
import os
import re
import resource
import socket
import statistics
import threading
import time

from harness import BIN, WAIT_S, receive_exactly, socks_connect, wait_until
from wire import OFFERS, OPEN_RESULT, OPEN_STREAM, STRICT, Closed, Peer, frame, open_payload

IS_LONG = os.environ.get("TMESH_LONG") == "1"
KIB, MIB = 1024, 1024 * 1024


def often(quick, long):
    return long if IS_LONG else quick


def is_instrumented():
    """A sanitizer's shadow memory and delayed frees make sizes meaningless."""
    with open(os.path.join(BIN, "tunnelmesh-server"), "rb") as f:
        text = f.read()
    return b"__asan_init" in text or b"__tsan_init" in text


def more_descriptors():
    """Lets this process hold as many sockets as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptors(program):
    return len(os.listdir(f"/proc/{program.process.pid}/fd"))


def anonymous_bytes(program):
    """Memory of its own that is in use: no file pages, no shared ones."""
    with open(f"/proc/{program.process.pid}/status", encoding="ascii") as f:
        return int(re.search(r"RssAnon:\s+(\d+) kB", f.read()).group(1)) * KIB


def all_descriptors(mesh):
    return {name: descriptors(p) for name, p in mesh.programs.items()}


def wait_for_descriptors(before, mesh, slack=2):
    """Until every program holds as few descriptors as before, give or take `slack`."""
    now = {}

    def settled():
        now.update(all_descriptors(mesh))
        return all(now[name] <= before[name] + slack for name in before)

    try:
        wait_until(settled, "descriptors to be closed")
    except AssertionError:
        raise AssertionError(f"descriptors before {before}, now {now}") from None


def client_identity(mesh):
    """(client token, agent id) of a quickstart folder."""
    def value(text, key):
        return re.search(rf"^\s*{key}:\s*[\"']?([^\"'\s]+)", text, re.M).group(1)
    return value(mesh.read("client"), "token"), value(mesh.read("agent"), "id")


def another_token(mesh):
    """A second client token of the same owner: limits per token must not be shared."""
    made = mesh.admin("token", "create", "--type", "client")
    return made["secret"]


def scripted_client(mesh, token, offers=OFFERS[1:2], **more):
    return Peer(mesh.http_port, "/ws/client", token, offers, **more)


class Results:
    """Reads a scripted client's answers in the background: code of each OPEN_RESULT by stream."""

    def __init__(self, peer):
        self.peer = peer
        self.codes = {}
        self.resets = set()
        self.failed = None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            while True:
                kind, _, stream, _, payload = self.peer.receive()
                if kind == OPEN_RESULT:
                    assert stream not in self.codes, f"two results for stream {stream}"
                    self.codes[stream] = json.loads(payload)["code"]
                elif kind == 4:
                    self.resets.add(stream)
        except (Closed, OSError, AssertionError) as error:
            self.failed = error

    def counts(self):
        out = {}
        for code in list(self.codes.values()):
            out[code] = out.get(code, 0) + 1
        return out


def open_frame(stream, port, agent_id, host="127.0.0.1"):
    return frame(OPEN_STREAM, stream, open_payload(host, port, agent_id), flags=STRICT, window=262144)


def send_all(peer, frames, batch=256):
    """Frames as fast as the socket takes them."""
    frames = list(frames)
    for i in range(0, len(frames), batch):
        peer.send_together(*frames[i:i + batch])


def timed_echo(socks_port, port, text=b"ping"):
    """Seconds that one whole open, echo and close takes."""
    begin = time.monotonic()
    with socks_connect(socks_port, "127.0.0.1", port) as s:
        s.sendall(text)
        assert receive_exactly(s, len(text)) == text
    return time.monotonic() - begin


def median_round_trip(s, rounds, request=b"x", answer_bytes=1):
    took = []
    for _ in range(rounds):
        begin = time.monotonic()
        s.sendall(request)
        receive_exactly(s, answer_bytes)
        took.append(time.monotonic() - begin)
    return statistics.median(took)


class Box:
    """A TCP relay in front of the server, as boxes in a network are: it can cut, drop what is idle, or change the
    bytes on their way: change(data, is_upward, state) -> bytes, state being a dict per connection and direction."""

    def __init__(self, target_port, idle_limit_s=None, change=None):
        self.target_port = target_port
        self.idle_limit_s = idle_limit_s
        self.change = change
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self.cut_count = 0
        self.idle_cut_count = 0
        self.longest_silence_s = 0.0
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target_port), timeout=WAIT_S)
            except OSError:
                near.close()
                continue
            for s in (near, far):
                s.settimeout(None)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = {"near": near, "far": far, "at": time.monotonic()}
            with self.lock:
                self.pairs.append(pair)
            for source, sink, is_upward in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._move, args=(pair, source, sink, is_upward), daemon=True).start()
            if self.idle_limit_s:
                threading.Thread(target=self._watch, args=(pair,), daemon=True).start()

    def _move(self, pair, source, sink, is_upward):
        state = {}
        try:
            while data := source.recv(65536):
                now = time.monotonic()
                self.longest_silence_s = max(self.longest_silence_s, now - pair["at"])
                pair["at"] = now
                if self.change:
                    data = self.change(data, is_upward, state)
                if data:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(pair)

    def _watch(self, pair):
        while True:
            left = pair["at"] + self.idle_limit_s - time.monotonic()
            if left <= 0:
                if self._close(pair):
                    self.idle_cut_count += 1
                return
            time.sleep(left)
            if pair not in self.pairs:
                return

    def _close(self, pair):
        with self.lock:
            if pair not in self.pairs:
                return False
            self.pairs.remove(pair)
        for s in (pair["near"], pair["far"]):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        return True

    def cut(self):
        for pair in list(self.pairs):
            self._close(pair)
            self.cut_count += 1

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


def through_box(mesh, box, names=("client", "agent")):
    """Rewrites server_url of these programs to the box's port."""
    for name in names:
        mesh.rewrite(name, lambda text: text.replace(f"127.0.0.1:{mesh.http_port}", f"127.0.0.1:{box.port}"))
