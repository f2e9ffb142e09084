"""Half-close under repetition: no byte is cut, no descriptor stays."""

import concurrent.futures
import hashlib
import random
import socket
import time
import unittest

from harness import MeshTest, Target, receive_exactly, socks_connect
from measure import KIB, MIB, all_descriptors, more_descriptors, often, wait_for_descriptors


def drain(s, piece=262144, pause_s=0.0):
    """(bytes, digest) until the end of the stream."""
    digest, count = hashlib.sha256(), 0
    while chunk := s.recv(piece):
        digest.update(chunk)
        count += len(chunk)
        if pause_s:
            time.sleep(pause_s)
    return count, digest.hexdigest()


def body(seed, size):
    return random.Random(seed).randbytes(size)


class Answers(Target):
    """Reads "G <seed> <size>\\n" and everything behind it to the end; then answers that many bytes of that seed."""

    def handle(self, s):
        line = b""
        while not line.endswith(b"\n"):
            line += receive_exactly(s, 1)
        while s.recv(65536):
            pass
        _, seed, size = line.split()
        s.sendall(body(int(seed), int(size)))


class Chunks(Answers):
    """The same, but 64 KiB at a time with random pauses, and it begins before the request's end."""

    def handle(self, s):
        line = b""
        while not line.endswith(b"\n"):
            line += receive_exactly(s, 1)
        _, seed, size = line.split()
        data, pauses = body(int(seed), int(size)), random.Random(int(seed))
        for i in range(0, len(data), 64 * KIB):
            s.sendall(data[i:i + 64 * KIB])
            time.sleep(pauses.random() * 0.01)


class HalfClose(MeshTest):
    @classmethod
    def setUpClass(cls):
        more_descriptors()
        super().setUpClass()

    def ask(self, target, seed, size, **how):
        with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
            s.settimeout(120)
            s.sendall(f"G {seed} {size}\n".encode())
            s.shutdown(socket.SHUT_WR)
            got = drain(s, **how)
        self.assertEqual(got, (size, hashlib.sha256(body(seed, size)).hexdigest()), f"seed {seed}")

    def test_many_half_closes_return_every_descriptor(self):
        count = often(200, 1000)
        target = Answers()
        try:
            self.ask(target, 0, 1000)
            before = all_descriptors(self.mesh)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda i: self.ask(target, i, 5000 + i), range(count)))
            wait_for_descriptors(before, self.mesh)
            self.assertEqual(target.errors, [])
        finally:
            target.close()

    def test_8_mib_to_a_client_that_half_closed_at_once_and_reads_slowly(self):
        target = Answers()
        try:
            self.ask(target, 8, 8 * MIB, piece=64 * KIB, pause_s=0.01)
        finally:
            target.close()

    def test_answers_in_chunks_with_pauses_arrive_whole(self):
        count = often(24, 1000)
        target = Chunks()
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda i: self.ask(target, i, 64 * KIB * (1 + i % 24) + i), range(count)))
            self.assertEqual(target.errors, [])
        finally:
            target.close()

    def test_an_end_of_file_alone_is_passed_on(self):
        # No byte before it, and none behind it.
        target = Target(lambda s: s.sendall(b"eof") if s.recv(1) == b"" else None)
        try:
            for _ in range(often(50, 1000)):
                with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                    s.shutdown(socket.SHUT_WR)
                    self.assertEqual(receive_exactly(s, 3), b"eof")
                    self.assertEqual(s.recv(1), b"")
        finally:
            target.close()


if __name__ == "__main__":
    unittest.main()
