"""Bytes through the whole path: exact, both ways, with half-close, under load."""

import concurrent.futures
import hashlib
import random
import socket
import threading
import time
import unittest

from harness import EchoTarget, MeshTest, Target, receive_exactly, socks_connect


def read_all(s):
    digest = hashlib.sha256()
    count = 0
    while chunk := s.recv(262144):
        digest.update(chunk)
        count += len(chunk)
    return count, digest.hexdigest()


class LateAnswer(Target):
    """Reads to the end, waits, then answers 512 KiB."""

    body = bytes(range(256)) * 2048

    def handle(self, s):
        while s.recv(65536):
            pass
        time.sleep(1.5)
        s.sendall(self.body)


class Digests(Target):
    """Sends SIZE seeded bytes while it reads as many, then the digest of what it read."""

    size = 16 * 1024 * 1024

    def handle(self, s):
        seed = int.from_bytes(receive_exactly(s, 4), "big")
        data = random.Random(seed).randbytes(self.size)
        sender = threading.Thread(target=s.sendall, args=(data,))
        sender.start()
        digest = hashlib.sha256()
        left = self.size
        while left:
            chunk = s.recv(min(left, 262144))
            if not chunk:
                raise OSError(f"{left} bytes missing")
            digest.update(chunk)
            left -= len(chunk)
        sender.join()
        s.sendall(digest.digest())


class Flows(MeshTest):
    def test_half_close_with_a_late_512_kib_answer(self):
        target = LateAnswer()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                s.sendall(b"request")
                s.shutdown(socket.SHUT_WR)
                count, digest = read_all(s)
            self.assertEqual(count, len(LateAnswer.body))
            self.assertEqual(digest, hashlib.sha256(LateAnswer.body).hexdigest())
        finally:
            target.close()

    def test_target_end_first_then_the_rest_of_the_upload(self):
        got = []
        done = threading.Event()

        def handle(s):
            s.shutdown(socket.SHUT_WR)
            got.append(read_all(s)[0])
            done.set()

        target = Target(handle)
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                self.assertEqual(s.recv(10), b"")
                s.sendall(b"u" * 300000)
            self.assertTrue(done.wait(30))
            self.assertEqual(got, [300000])
        finally:
            target.close()

    def test_16_mib_both_ways_on_8_streams_with_digests(self):
        target = Digests()

        def one(i):
            data = random.Random(1000 + i).randbytes(Digests.size)
            expected = hashlib.sha256(random.Random(i).randbytes(Digests.size)).digest()
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                s.settimeout(120)
                s.sendall(i.to_bytes(4, "big"))
                sender = threading.Thread(target=s.sendall, args=(data,))
                sender.start()
                digest = hashlib.sha256()
                left = Digests.size
                while left:
                    chunk = s.recv(min(left, 262144))
                    self.assertTrue(chunk, "end of stream inside the download")
                    digest.update(chunk)
                    left -= len(chunk)
                sender.join()
                self.assertEqual(digest.digest(), expected, f"download of stream {i}")
                self.assertEqual(receive_exactly(s, 32), hashlib.sha256(data).digest(), f"upload of stream {i}")
            return True

        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertEqual(list(pool.map(one, range(8))), [True] * 8)
        finally:
            target.close()

    def test_upload_of_exactly_one_window_and_the_end(self):
        target = Target(lambda s: s.sendall(str(read_all(s)[0]).encode()))
        try:
            for size in (262143, 262144, 262145):
                with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                    s.sendall(b"w" * size)
                    s.shutdown(socket.SHUT_WR)
                    self.assertEqual(s.recv(64), str(size).encode())
        finally:
            target.close()

    def test_reset_by_the_target_ends_only_that_stream(self):
        def reset(s):
            s.recv(1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

        breaking, echo = Target(reset), EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", echo.port) as healthy:
                with socks_connect(self.mesh.socks_port, "127.0.0.1", breaking.port) as s:
                    s.sendall(b"x")
                    try:
                        self.assertEqual(s.recv(10), b"")
                    except ConnectionResetError:
                        pass
                healthy.sendall(b"still here")
                self.assertEqual(receive_exactly(healthy, 10), b"still here")
        finally:
            breaking.close()
            echo.close()


if __name__ == "__main__":
    unittest.main()
