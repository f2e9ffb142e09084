"""One client's flood of opens and resets: limits hold, others do not notice, nothing stays behind."""

import contextlib
import selectors
import socket
import struct
import threading
import time
import unittest

from harness import EchoTarget, HungTarget, MeshTest, closed_port, receive_exactly, socks_address, socks_connect, wait_until
from measure import (MIB, Results, all_descriptors, another_token, anonymous_bytes, client_identity, is_instrumented,
                     more_descriptors, often, open_frame, scripted_client, send_all, timed_echo, wait_for_descriptors)
from wire import PING, PONG, RESET, frame

SINGLE_LIMIT_S = 5.0  # of one open beside a flood; alone it takes some milliseconds


class Floods(MeshTest):
    @classmethod
    def setUpClass(cls):
        more_descriptors()
        super().setUpClass()
        _, cls.agent_id = client_identity(cls.mesh)
        cls.echo = EchoTarget()

    @classmethod
    def tearDownClass(cls):
        cls.echo.close()
        super().tearDownClass()

    def setUp(self):
        self.held = socks_connect(self.mesh.socks_port, "127.0.0.1", self.echo.port)
        self.addCleanup(self.held.close)
        self.token = another_token(self.mesh)

    def tearDown(self):
        # An innocent stream of another link lives, and new ones open.
        self.held.sendall(b"innocent")
        self.assertEqual(receive_exactly(self.held, 8), b"innocent")
        self.assertLess(timed_echo(self.mesh.socks_port, self.echo.port), SINGLE_LIMIT_S)
        super().tearDown()

    def flooder(self):
        peer = scripted_client(self.mesh, self.token, timeout_s=120)
        self.addCleanup(peer.close)
        return peer

    def singles_beside(self, peer, results, frames, count):
        """Opens of the mesh's own client, one after another, until the flood is answered: (number of those that
        began and ended while the flood was under way, their longest time)."""
        took = []
        sender = threading.Thread(target=send_all, args=(peer, frames))
        sender.start()
        end = time.monotonic() + 120
        while len(results.codes) < count and not results.failed and time.monotonic() < end:
            took.append(timed_echo(self.mesh.socks_port, self.echo.port))
        sender.join()
        self.assertIsNone(results.failed)
        self.assertEqual(len(results.codes), count, "every open of the flood is answered")
        return len(took) - 1, max(took)

    def test_10000_opens_of_one_client_do_not_delay_another(self):
        count, port = 10000, closed_port()
        frames = [open_frame(i, port, self.agent_id) for i in range(1, count + 1)]
        for _ in range(10):
            peer = self.flooder()
            results = Results(peer)
            singles, slowest = self.singles_beside(peer, results, frames, count)
            print(f"{singles} opens beside {count}: slowest {slowest * 1000:.0f} ms, {results.counts()}")
            self.assertLess(slowest, SINGLE_LIMIT_S)
            self.assertEqual(set(results.counts()) - {"connection_refused", "queue_full"}, set())
            self.assertGreater(results.counts().get("connection_refused", 0), 0)
            if singles > 0:
                return
            peer.close()
        self.fail("no open ended before the flood did; a flood lasts for two of them at least")

    def test_opens_to_a_black_hole_do_not_delay_another(self):
        # Each of the flood's dials hangs; the others' wait is bounded by one dial's patience.
        count, hung = 1000, HungTarget()
        try:
            peer = self.flooder()
            results = Results(peer)
            frames = [open_frame(i, hung.port, self.agent_id) for i in range(1, count + 1)]
            singles, slowest = self.singles_beside(peer, results, frames, count)
            print(f"{singles} opens beside {count} black-holed ones: slowest {slowest * 1000:.0f} ms, "
                  f"{results.counts()}")
            self.assertGreater(singles, 0)
            self.assertLess(slowest, SINGLE_LIMIT_S)
            self.assertEqual(set(results.counts()) - {"timeout", "queue_full"}, set())
        finally:
            hung.close()

    def test_open_and_reset_at_wire_speed_gets_past_no_limit(self):
        # In one go, so that nothing of them runs; and in blocks, so that dials begin and are cancelled.
        for block in (1, 100):
            self.cancel_many(often(5000, 20000), block)

    def cancel_many(self, count, block):
        hung = HungTarget()
        before = all_descriptors(self.mesh)
        peak = {}
        is_over = threading.Event()

        def watch():
            while True:
                for name, n in all_descriptors(self.mesh).items():
                    peak[name] = max(peak.get(name, 0), n)
                if is_over.wait(0.02):
                    return

        frames = []
        for first in range(1, count, block):
            ids = range(first, first + block)
            frames += [open_frame(i, hung.port, self.agent_id) for i in ids] + [frame(RESET, i) for i in ids]
        frames.append(frame(PING, payload=b"12345678"))
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            with scripted_client(self.mesh, another_token(self.mesh), timeout_s=120) as peer:
                sender = threading.Thread(target=send_all, args=(peer, frames, block))
                sender.start()
                reader = threading.Thread(target=peer.expect, args=(PONG,))
                reader.start()
                slowest = max(timed_echo(self.mesh.socks_port, self.echo.port) for _ in range(10))
                sender.join()
                reader.join(60)
                self.assertFalse(reader.is_alive(), "the flooding link itself still works")
        finally:
            is_over.set()
            watcher.join()
            hung.close()
        print(f"10 opens beside {count} cancelled ones in blocks of {block}: slowest {slowest * 1000:.0f} ms; "
              f"descriptors before {before}, at most {peak}")
        self.assertLess(slowest, SINGLE_LIMIT_S)
        # The agent's dials: 32 at once and 256 slow ones at most, with room for the innocent.
        self.assertLess(peak["agent"], before["agent"] + 32 + 256 + 20)
        wait_for_descriptors(before, self.mesh)

    def test_opens_that_were_reset_leave_no_connection_to_the_target(self):
        count = often(500, 5000)
        before = all_descriptors(self.mesh)
        peer = self.flooder()
        frames = []
        for i in range(1, count + 1):
            frames += [open_frame(i, self.echo.port, self.agent_id), frame(RESET, i)]
        send_all(peer, frames)
        peer.send(PING, payload=b"12345678")
        peer.expect(PONG)
        peer.close()
        wait_for_descriptors(before, self.mesh)

    def test_a_spike_of_socks5_connects_is_answered_and_leaves_nothing(self):
        count = often(1000, 5000)
        before = all_descriptors(self.mesh)
        memory_before = {n: anonymous_bytes(p) for n, p in self.mesh.programs.items()}
        request = b"\x05\x01\x00\x05\x01\x00" + socks_address("127.0.0.1") + struct.pack(">H", self.echo.port)
        outcomes = {"served": 0, "refused": 0, "closed": 0}
        with selectors.DefaultSelector() as selector:
            begin = time.monotonic()
            for _ in range(count):
                s = socket.socket()
                s.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    s.connect(("127.0.0.1", self.mesh.socks_port))
                selector.register(s, selectors.EVENT_WRITE, [request, b""])
            spike_s = time.monotonic() - begin
            end = time.monotonic() + 120
            while selector.get_map():
                self.assertLess(time.monotonic(), end, f"{len(selector.get_map())} connects without an answer")
                for key, _ in selector.select(1):
                    self.advance(selector, key, outcomes)
        print(f"{count} connects within {spike_s:.2f} s: {outcomes}")
        self.assertGreater(outcomes["served"], 0)
        wait_for_descriptors(before, self.mesh)
        if is_instrumented():
            return
        for name, program in self.mesh.programs.items():
            # Slabs, block caches and SOCKS5 states of that many streams; not one buffer each for ever.
            wait_until(lambda p=program, n=name: anonymous_bytes(p) < memory_before[n] + 24 * MIB,
                       f"{name}'s memory to come back from {anonymous_bytes(program)}, before {memory_before[name]}")

    @staticmethod
    def advance(selector, key, outcomes):
        s, state = key.fileobj, key.data
        try:
            if state[0]:
                s.send(state[0])
                state[0] = b""
                selector.modify(s, selectors.EVENT_READ, state)
                return
            chunk = s.recv(64)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        state[1] += chunk
        if chunk and len(state[1]) < 4:
            return
        reply = state[1][3] if len(state[1]) >= 4 else None
        outcomes["closed" if reply is None else "served" if reply == 0 else "refused"] += 1
        selector.unregister(s)
        s.close()


if __name__ == "__main__":
    unittest.main()
