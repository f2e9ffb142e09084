"""Programs that run out of memory."""

import contextlib
import resource
import selectors
import socket
import threading
import time
import unittest

import harness


def used_bytes(pid, what):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return int(f.read().split(what + ":")[1].split()[0]) * 1024


def is_sanitized(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        return "libasan" in (text := f.read()) or "libtsan" in text


class OutOfMemory(unittest.TestCase):
    """A failing operator new ends a program with status 1 and one line."""

    def exhaust(self, name):
        mesh = harness.Mesh()
        target = harness.EchoTarget()
        sockets = []
        try:
            program = mesh.programs[name]
            pid = program.process.pid
            if is_sanitized(pid):
                self.skipTest("operator new is the sanitizer's")
            # What is written, not address space: the arena of a thread that ended has much of that in reserve.
            limit = used_bytes(pid, "VmData") + (1 << 20)
            resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))

            def one_more():
                if name != "server":
                    return harness.socks_connect(mesh.socks_port, "127.0.0.1", target.port, timeout_s=2)
                # A server whose database has no memory refuses opens and lives on them.
                s = socket.create_connection(("127.0.0.1", mesh.http_port), timeout=2)
                s.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 4_000)
                return s

            def ended():
                for _ in range(50):
                    with contextlib.suppress(OSError, harness.SocksRefused):
                        sockets.append(one_more())
                return not program.alive()

            harness.wait_until(ended, f"the end of {name}", 120)
            self.assertEqual(program.process.returncode, 1, program.text()[-2000:])
            lines = program.text().splitlines()
            # What lives without memory, SQLite for one, may have said so in lines of the log before.
            self.assertEqual((lines.count("out of memory"), lines[-1]), (1, "out of memory"), lines[-20:])
        finally:
            for s in sockets:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
                s.close()
            target.close()
            codes = {n: p.stop() for n, p in mesh.programs.items()}
        self.assertEqual({n: c for n, c in codes.items() if n != name and c != 0}, {})

    def test_client(self):
        self.exhaust("client")

    def test_agent(self):
        self.exhaust("agent")

    def test_server(self):
        self.exhaust("server")


BUDGET_BYTES = 8 << 20
STREAMS = 200
STALLED = 20
TOTAL_BYTES = 1 << 20  # of each stream, in both directions


def pattern(index):
    return bytes((index * 7 + i * 13 + (i >> 8)) & 0xFF for i in range(65536))


class BulkTarget(harness.Target):
    """Sends and reads at the same time, without waiting for either."""

    def handle(self, s):
        index = int.from_bytes(harness.receive_exactly(s, 4), "big")
        data = pattern(index)
        sender = threading.Thread(target=self.send, args=(s, data), daemon=True)
        sender.start()
        got = 0
        while chunk := s.recv(65536):
            if chunk != (data * 2)[got % 65536:][:len(chunk)]:
                raise AssertionError(f"stream {index}: wrong byte after {got}")
            got += len(chunk)
        sender.join()
        self.sizes[index] = got

    def send(self, s, data):
        with contextlib.suppress(OSError):
            for _ in range(TOTAL_BYTES // len(data)):
                s.sendall(data)
            s.shutdown(socket.SHUT_WR)

    sizes = {}


class Flow:
    def __init__(self, s, index):
        self.s = s
        self.index = index
        self.data = pattern(index)
        self.sent = self.got = 0
        self.ended = None
        s.setblocking(False)

    def writes(self):
        return self.sent < TOTAL_BYTES

    def step(self, events):
        if events & selectors.EVENT_WRITE and self.writes():
            with contextlib.suppress(BlockingIOError):
                self.sent += self.s.send(self.data[self.sent % 65536:][:TOTAL_BYTES - self.sent])
                if not self.writes():
                    self.s.shutdown(socket.SHUT_WR)
        if events & selectors.EVENT_READ:
            try:
                chunk = self.s.recv(65536)
            except BlockingIOError:
                return
            if chunk != (self.data * 2)[self.got % 65536:][:len(chunk)]:
                raise AssertionError(f"stream {self.index}: wrong byte after {self.got}")
            self.got += len(chunk)
            if not chunk:
                self.ended = True


def lower_budget(mesh):
    for name in ("server", "agent", "client"):
        mesh.append(name, f"  limits:\n    memory_budget: {BUDGET_BYTES}\n    max_window: {BUDGET_BYTES // 4}\n")


class SmallBudget(unittest.TestCase):
    def test_with_eight_mib_streams_go_on_and_only_stalled_ones_end(self):
        mesh = harness.Mesh(edit=lower_budget)
        target = BulkTarget()
        stalled, flows = [], []
        try:
            for index in range(STREAMS):
                s = harness.socks_connect(mesh.socks_port, "127.0.0.1", target.port)
                s.sendall(index.to_bytes(4, "big"))
                if index < STALLED:
                    stalled.append(s)  # its answer is never read
                else:
                    flows.append(Flow(s, index))
            self.run_flows(mesh, flows)
            for flow in flows:
                self.assertEqual((flow.got, flow.ended), (TOTAL_BYTES, True), flow.index)
            harness.wait_until(lambda: len(target.sizes) >= len(flows), "the end of every upload")
            self.assertEqual({target.sizes[f.index] for f in flows}, {TOTAL_BYTES})
            if not is_sanitized(mesh.programs["server"].process.pid):
                for name, program in mesh.programs.items():
                    with open(f"/proc/{program.process.pid}/status", encoding="utf-8") as f:
                        peak = int(f.read().split("VmHWM:")[1].split()[0]) * 1024
                    self.assertLess(peak, 4 * BUDGET_BYTES, name)
        except BaseException:
            print(mesh.logs()[-4000:])
            raise
        finally:
            for s in stalled + [flow.s for flow in flows]:
                s.close()
            target.close()
            mesh.close()

    def run_flows(self, mesh, flows):
        selector = selectors.DefaultSelector()
        for flow in flows:
            selector.register(flow.s, selectors.EVENT_READ | selectors.EVENT_WRITE, flow)
        end = time.monotonic() + 240
        while selector.get_map():
            if time.monotonic() > end:
                left = [(f.index, f.sent, f.got) for f in flows if not f.ended]
                self.fail(f"{len(left)} streams did not end: {left[:20]}")
            for key, events in selector.select(1):
                flow = key.data
                try:
                    flow.step(events)
                except OSError as error:
                    self.fail(f"stream {flow.index} after {flow.sent} and {flow.got} bytes: {error}")
                if flow.ended:
                    selector.unregister(flow.s)
                elif not flow.writes():
                    selector.modify(flow.s, selectors.EVENT_READ, flow)


if __name__ == "__main__":
    unittest.main()
