"""Readers that stop: memory stays within the windows and comes back, everybody else goes on."""

import contextlib
import select
import socket
import threading
import time
import unittest

from harness import EchoTarget, MeshTest, Target, receive_exactly, socks_connect, wait_until
from measure import (KIB, MIB, all_descriptors, anonymous_bytes, is_instrumented, more_descriptors, often, timed_echo,
                     wait_for_descriptors)

WINDOW = 256 * KIB


class Flooding(Target):
    """Sends without end; counts what the socket took."""

    sent = 0

    def handle(self, s):
        block = b"f" * 65536
        with contextlib.suppress(OSError):
            while True:
                self.sent += s.send(block)


def left_unread(s):
    """How many bytes of what `s` sent the program at its other end has not read."""
    ends = f"{s.getpeername()[1]:04X}", f"{s.getsockname()[1]:04X}"
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            _, local, remote, _, queues, *_ = line.split()
            if (local.rpartition(":")[2], remote.rpartition(":")[2]) == ends:
                return int(queues.rpartition(":")[2], 16)
    return 0


def send_until_paused(s, turn):
    """Ends with a half-close that the program at the other end cannot read yet. It is paused when it leaves
    bytes unread while `turn`, an echo through it, makes its loop go round."""
    while True:
        s.sendall(b"f" * 16384)
        turns = 0
        while left_unread(s) > 0:
            if turns == 10:
                s.shutdown(socket.SHUT_WR)
                return
            turn()
            turns += 1


def is_cut(s):
    poll = select.poll()
    poll.register(s, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


class Holding(Target):
    """Keeps its connections and reads nothing."""

    def __init__(self):
        self.held = []
        self.over = threading.Event()
        super().__init__()

    def handle(self, s):
        self.held.append(s)
        self.over.wait()


class SlowReaders(MeshTest):
    options = {"edit": lambda mesh: [
        mesh.rewrite(name, lambda text, name=name: text.replace(
            f"{name}:\n", f"{name}:\n  limits: {{stalled_close_timeout: 1s}}\n", 1)) for name in ("agent", "client")]}

    @classmethod
    def setUpClass(cls):
        more_descriptors()
        super().setUpClass()
        cls.echo = EchoTarget()

    @classmethod
    def tearDownClass(cls):
        cls.echo.close()
        super().tearDownClass()

    def memory(self):
        return {name: anonymous_bytes(p) for name, p in self.mesh.programs.items()}

    def stalled(self, port):
        """A reader that never reads; its own socket holds little, so that the mesh has to."""
        s = socks_connect(self.mesh.socks_port, "127.0.0.1", port)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        return s

    def assert_memory_comes_back(self, before, slack):
        def is_back():
            now = self.memory()
            return all(now[name] <= before[name] + slack for name in before)

        try:
            wait_until(is_back, "memory to come back")
        except AssertionError:
            raise AssertionError(f"memory before {before}, now {self.memory()}") from None

    def test_many_stalled_readers_hold_at_most_their_windows(self):
        count = often(100, 500)
        flooding = Flooding()
        before, handles = self.memory(), all_descriptors(self.mesh)
        readers = []
        try:
            for _ in range(count):
                readers.append(self.stalled(flooding.port))
            settled = {"sent": -1}

            def is_full():  # nothing moves any more
                was, settled["sent"] = settled["sent"], flooding.sent
                time.sleep(0.3)
                return was == settled["sent"]

            wait_until(is_full, "every window to be full")
            held = self.memory()
            slowest = max(timed_echo(self.mesh.socks_port, self.echo.port) for _ in range(10))
            grown = {name: (held[name] - before[name]) / MIB for name in before}
            print(f"{count} stalled readers: grown by {({n: round(v, 1) for n, v in grown.items()})} MiB, "
                  f"slowest echo beside them {slowest * 1000:.0f} ms")
            self.assertLess(slowest, 5)
            if not is_instrumented():
                for name in before:
                    # A window and an outbound queue of at most two, in whole blocks, and caches and slabs.
                    self.assertLess(held[name] - before[name], count * (2 * WINDOW + 64 * KIB) + 24 * MIB, name)
        finally:
            for s in readers:
                s.close()
            flooding.close()
        wait_for_descriptors(handles, self.mesh)
        if not is_instrumented():
            self.assert_memory_comes_back(before, 24 * MIB)

    def test_a_stalled_reader_that_closes_leaves_nothing(self):
        flooding = Flooding()
        before, handles = self.memory(), all_descriptors(self.mesh)
        try:
            with self.stalled(flooding.port):
                end = time.monotonic() + often(2, 60)
                while time.monotonic() < end:
                    self.assertLess(timed_echo(self.mesh.socks_port, self.echo.port), 5)
                    time.sleep(0.05)
            wait_for_descriptors(handles, self.mesh)
            if not is_instrumented():
                self.assert_memory_comes_back(before, 8 * MIB)
        finally:
            flooding.close()

    def test_sender_and_receiver_differ_by_what_the_windows_hold(self):
        flooding = Flooding()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", flooding.port) as s:
                read = len(receive_exactly(s, 2 * MIB))
                settled = {"sent": -1}

                def is_full():
                    was, settled["sent"] = settled["sent"], flooding.sent
                    time.sleep(0.3)
                    return was == settled["sent"]

                wait_until(is_full, "every window to be full")
                # Three programs with a window and an outbound queue each, and six socket buffers of at most 6 MiB.
                print(f"sent but not read: {(flooding.sent - read) / MIB:.1f} MiB")
                self.assertLess(flooding.sent - read, 3 * 2 * WINDOW + 36 * MIB)
        finally:
            flooding.close()

    def test_who_half_closed_and_is_not_read_is_given_up_after_the_configured_time(self):
        """limits.stalled_close_timeout of client and agent: looked at every 5 s, so about 10 s, and 60 s by default."""
        target = Holding()
        with contextlib.ExitStack() as stack:
            stack.callback(target.close)
            stack.callback(target.over.set)
            stack.enter_context(self.stalled(target.port))
            wait_until(lambda: len(target.held) == 1, "the target to accept")
            upload = stack.enter_context(socks_connect(self.mesh.socks_port, "127.0.0.1", target.port))
            senders = {"agent": target.held[0], "client": upload}
            for s in senders.values():
                send_until_paused(s, lambda: timed_echo(self.mesh.socks_port, self.echo.port))
            for name, s in senders.items():
                wait_until(lambda s=s: is_cut(s), f"the {name} to give up", limit_s=45)

    def test_one_stalled_reader_among_31_small_flows(self):
        flooding = Flooding()
        try:
            alone = sorted(timed_echo(self.mesh.socks_port, self.echo.port) for _ in range(100))
            with self.stalled(flooding.port):
                time.sleep(0.5)
                beside = sorted(timed_echo(self.mesh.socks_port, self.echo.port) for _ in range(100))
            print(f"p95 of 100 small flows: alone {alone[94] * 1000:.1f} ms, beside a stalled reader "
                  f"{beside[94] * 1000:.1f} ms")
            self.assertLess(beside[94], max(10 * alone[94], 0.5))
        finally:
            flooding.close()


if __name__ == "__main__":
    unittest.main()
