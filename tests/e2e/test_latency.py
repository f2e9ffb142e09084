"""Small messages are not held back by Nagle's algorithm, delayed acknowledgements or lazy flushes (40 ms each)."""

import socket
import statistics
import threading
import time
import unittest

from harness import EchoTarget, MeshTest, Target, receive_exactly, socks_connect
from measure import median_round_trip, often

# A direct round trip on loopback takes 0.1 ms, one through the mesh less than 1 ms. Anything that waits
# for a timer of the kernel's takes 40 ms or more.
MEDIAN_LIMIT_S = 0.02


class FourParts(Target):
    """Answers each 4-byte request with 4 KiB, written 1 KiB at a time."""

    def handle(self, s):
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(receive_exactly(s, 4)) == 4:
            for _ in range(4):
                s.sendall(b"a" * 1024)


class Latency(MeshTest):
    def direct(self, port):
        s = socket.create_connection(("127.0.0.1", port), timeout=30)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def compare(self, target, request, answer_bytes):
        rounds = often(200, 5000)
        with self.direct(target.port) as s:
            alone = median_round_trip(s, rounds, request, answer_bytes)
        with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
            through = median_round_trip(s, rounds, request, answer_bytes)
        print(f"median of {rounds}: direct {alone * 1e3:.2f} ms, through the mesh {through * 1e3:.2f} ms")
        self.assertLess(through, alone + MEDIAN_LIMIT_S)

    def test_ping_pong_of_one_byte(self):
        target = EchoTarget()
        try:
            self.compare(target, b"x", 1)
        finally:
            target.close()

    def test_an_answer_written_in_four_parts(self):
        target = FourParts()
        try:
            self.compare(target, b"next", 4096)
        finally:
            target.close()

    def test_requests_written_in_parts(self):
        # The request's second half must not wait for an acknowledgement of the first.
        target = FourParts()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                took = []
                for _ in range(often(100, 2000)):
                    begin = time.monotonic()
                    s.sendall(b"ne")
                    s.sendall(b"xt")
                    receive_exactly(s, 4096)
                    took.append(time.monotonic() - begin)
            self.assertLess(statistics.median(took), MEDIAN_LIMIT_S)
        finally:
            target.close()

    def test_ping_pong_beside_a_bulk_stream_of_another_target(self):
        def pour(s):
            try:
                while True:
                    s.sendall(b"b" * 65536)
            except OSError:
                return

        echo, bulk = EchoTarget(), Target(pour)
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", bulk.port) as b:
                is_over = threading.Event()

                def drain():
                    b.settimeout(5)
                    while not is_over.is_set() and b.recv(262144):
                        pass

                reader = threading.Thread(target=drain)
                reader.start()
                try:
                    with socks_connect(self.mesh.socks_port, "127.0.0.1", echo.port) as s:
                        beside = median_round_trip(s, often(100, 1000))
                finally:
                    is_over.set()
                    reader.join()
            print(f"median beside a bulk stream: {beside * 1e3:.2f} ms")
            self.assertLess(beside, 0.2)
        finally:
            echo.close()
            bulk.close()


if __name__ == "__main__":
    unittest.main()
