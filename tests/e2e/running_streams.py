"""Streams that run while something happens to them, and opens that go on beside them."""

import contextlib
import random
import threading
import time

from harness import WAIT_S, SocksRefused, Target, receive_exactly, socks_connect

BLOCK_BYTES = 16384


class Endless(Target):
    """Sends what both ends can make from the same seed, until it is told to stop."""

    def __init__(self, seed, block_pause_s=0.002, length=None):
        self.seed = seed
        self.block_pause_s = block_pause_s
        self.length = length
        self.is_over = threading.Event()
        super().__init__()

    def blocks(self):
        numbers = random.Random(self.seed)
        sent = 0
        while not self.is_over.is_set() and (self.length is None or sent < self.length):
            yield numbers.randbytes(BLOCK_BYTES)
            sent += BLOCK_BYTES

    def handle(self, s):
        for block in self.blocks():
            s.sendall(block)
            if self.block_pause_s:
                time.sleep(self.block_pause_s)


class Download(threading.Thread):
    """Reads an Endless and compares. `bytes_per_s` holds it back."""

    def __init__(self, s, seed, bytes_per_s=None):
        super().__init__(daemon=True)
        self.s = s
        self.numbers = random.Random(seed)
        self.bytes_per_s = bytes_per_s
        self.count = 0
        self.error = None
        self.ended_at = None
        self.start()

    def run(self):
        begun = time.monotonic()
        expected = b""
        try:
            while chunk := self.s.recv(65536):
                while len(expected) < len(chunk):
                    expected += self.numbers.randbytes(BLOCK_BYTES)
                if chunk != expected[:len(chunk)]:
                    self.error = AssertionError(f"other bytes than were sent, after {self.count}")
                    return
                expected = expected[len(chunk):]
                self.count += len(chunk)
                if self.bytes_per_s:
                    time.sleep(max(0, begun + self.count / self.bytes_per_s - time.monotonic()))
        except OSError as error:
            self.error = error
        finally:
            self.ended_at = time.monotonic()


class Opens(threading.Thread):
    """Opens one stream after the other and notes what became of them."""

    def __init__(self, port, target_port):
        super().__init__(daemon=True)
        self.port = port
        self.target_port = target_port
        self.good_count = 0
        self.last_good_at = 0.0  # when it was begun
        self.refusals = []  # (begun, reply) since then
        self.is_over = threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(0.03):
            begun = time.monotonic()
            try:
                socks_connect(self.port, "127.0.0.1", self.target_port).close()
                self.good_count += 1
                self.last_good_at = begun
                self.refusals = []
            except (OSError, SocksRefused) as refused:
                self.refusals = [*self.refusals, (begun, getattr(refused, "reply", None))]

    def stop(self):
        self.is_over.set()
        self.join(WAIT_S)


def answers(s):
    s.sendall(b"ping")
    return receive_exactly(s, 4) == b"ping"


def time_of_end(s, limit_s=WAIT_S):
    """When the stream ended; it must not send anything before."""
    s.settimeout(limit_s)
    with contextlib.suppress(ConnectionResetError):
        data = s.recv(1)
        if data:
            raise AssertionError("the stream goes on")
    return time.monotonic()
