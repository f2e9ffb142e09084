"""Random opens, writes, half-closes, closes and resets from several threads, with a watchdog on every wait.

A failure prints its seed: TMESH_SEED=<seed> repeats the same plan (not the same timing)."""

import hashlib
import os
import random
import socket
import struct
import threading
import time
import unittest

from harness import MeshTest, SocksRefused, Target, receive_exactly, socks_connect
from measure import all_descriptors, more_descriptors, often, wait_for_descriptors

THREADS = 8
WATCHDOG_S = 30.0  # of any single wait; what is waited for takes milliseconds


class Obeys(Target):
    """Does what the first line says: "<how> <bytes to send> <seed>\\n"."""

    def handle(self, s):
        s.settimeout(WATCHDOG_S)
        line = b""
        while not line.endswith(b"\n"):
            line += receive_exactly(s, 1)
        how, size, seed = line.decode().split()
        data = random.Random(int(seed)).randbytes(int(size))
        if how == "reset":  # without a word, in the middle
            s.sendall(data[:len(data) // 2])
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        if how == "first":
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        digest = hashlib.sha256()
        while chunk := s.recv(65536):
            digest.update(chunk)
        if how == "answer":
            s.sendall(digest.digest() + data)


class Churn(MeshTest):
    @classmethod
    def setUpClass(cls):
        more_descriptors()
        super().setUpClass()

    def test_random_operations_never_stall_and_never_cut(self):
        count = often(1000, 100000)
        seed = int(os.environ.get("TMESH_SEED", "0")) or random.randrange(1 << 32)
        print(f"TMESH_SEED={seed}")
        target = Obeys()
        closed = socket.socket()
        closed.bind(("127.0.0.1", 0))  # bound, not listening: refused
        before = all_descriptors(self.mesh)
        numbers = iter(range(count))
        lock, faults, done = threading.Lock(), [], {}

        def work():
            while not faults:
                with lock:
                    i = next(numbers, None)
                if i is None:
                    return
                r = random.Random(seed * 1000003 + i)
                kind = r.choice(("answer", "answer", "first", "reset", "leave", "abort", "refused", "unused"))
                begin = time.monotonic()
                try:
                    self.one(kind, r, target.port, closed.getsockname()[1])
                except Exception as error:  # of any kind: it names the operation
                    faults.append(f"operation {i} ({kind}) after {time.monotonic() - begin:.1f} s: {error!r}")
                with lock:
                    done[kind] = done.get(kind, 0) + 1

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        begin = time.monotonic()
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(faults, [])
            print(f"{count} operations in {time.monotonic() - begin:.1f} s: {done}")
            wait_for_descriptors(before, self.mesh)
        finally:
            target.close()
            closed.close()

    def one(self, kind, r, port, closed_port):
        if kind == "refused":
            try:
                socks_connect(self.mesh.socks_port, "127.0.0.1", closed_port, timeout_s=WATCHDOG_S).close()
                raise AssertionError("a closed port was open")
            except SocksRefused as refused:
                if refused.reply != 5:
                    raise
                return
        size = r.choice((0, 1, 1000, 32768, 40000, 262144, 300000)) if r.random() < 0.3 else r.randrange(5000)
        up = r.randbytes(r.choice((0, 1, 5000, 262144)) if r.random() < 0.3 else r.randrange(5000))
        seed = r.randrange(1 << 30)
        with socks_connect(self.mesh.socks_port, "127.0.0.1", port, timeout_s=WATCHDOG_S) as s:
            if kind == "unused":
                return
            s.sendall(f"{kind} {size} {seed}\n".encode())
            if kind == "abort":
                s.sendall(up[:1000])
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif kind == "leave":
                s.sendall(up)
            elif kind == "reset":
                self.read_until_reset(s)
            else:
                self.exchange(s, kind, up, random.Random(seed).randbytes(size))

    @staticmethod
    def read_until_reset(s):
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            return
        raise AssertionError("a reset looked like a regular end")

    @staticmethod
    def exchange(s, kind, up, wanted):
        sender = threading.Thread(target=lambda: (s.sendall(up), s.shutdown(socket.SHUT_WR)))
        sender.start()
        got = b""
        while chunk := s.recv(262144):
            got += chunk
        sender.join()
        if kind == "answer":
            wanted = hashlib.sha256(up).digest() + wanted
        if got != wanted:
            raise AssertionError(f"{len(got)} bytes instead of {len(wanted)}")


if __name__ == "__main__":
    unittest.main()
