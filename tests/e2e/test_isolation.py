"""One slow, hung or broken target never touches another stream (requirements C6, K1, K6)."""

import concurrent.futures
import contextlib
import socket
import threading
import time
import unittest

from harness import EchoTarget, HungTarget, MeshTest, SocksRefused, Target, receive_exactly, socks_connect


class Isolation(MeshTest):
    def echo_once(self, port):
        with socks_connect(self.mesh.socks_port, "127.0.0.1", port) as s:
            s.sendall(b"ping")
            return receive_exactly(s, 4) == b"ping"

    def start_hung(self, port, results):
        def run():
            begin = time.monotonic()
            try:
                socks_connect(self.mesh.socks_port, "127.0.0.1", port).close()
                results.append(("accepted", time.monotonic() - begin))
            except SocksRefused as refused:
                results.append((refused.reply, time.monotonic() - begin))
            except OSError as error:
                results.append((repr(error), time.monotonic() - begin))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def test_one_hung_dial_delays_nobody(self):
        hung, echo = HungTarget(), EchoTarget()
        results = []
        try:
            thread = self.start_hung(hung.port, results)
            with concurrent.futures.ThreadPoolExecutor(31) as pool:
                self.assertTrue(all(pool.map(self.echo_once, [echo.port] * 31)))
            # Order of events: all 31 were served while the hung one still waits.
            self.assertTrue(thread.is_alive(), results)
            thread.join()
            self.assertEqual(results[0][0], 6, "a dial that times out is TTL expired")
        finally:
            hung.close()
            echo.close()

    def test_40_hung_dials_do_not_stop_an_agent(self):
        hung, echo = HungTarget(), EchoTarget()
        results = []
        try:
            threads = [self.start_hung(hung.port, results) for _ in range(40)]
            time.sleep(0.2)
            self.assertTrue(all(self.echo_once(echo.port) for _ in range(8)))
            self.assertTrue(any(t.is_alive() for t in threads), "the echoes were served while dials hung")
            for t in threads:
                t.join()
        finally:
            hung.close()
            echo.close()

    def test_a_refused_target_never_makes_the_agent_reconnect(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            closed = s.getsockname()[1]
        echo = EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", echo.port) as held:
                for _ in range(50):
                    with self.assertRaises(SocksRefused):
                        socks_connect(self.mesh.socks_port, "127.0.0.1", closed)
                held.sendall(b"same link")
                self.assertEqual(receive_exactly(held, 9), b"same link")
        finally:
            echo.close()

    def test_a_reader_that_stops_stalls_only_its_own_stream(self):
        def flood(s):
            with contextlib.suppress(OSError):
                while True:
                    s.sendall(b"f" * 65536)

        flooding, echo = Target(flood), EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", flooding.port):
                time.sleep(0.5)  # the windows fill while nobody reads
                for _ in range(20):
                    self.assertTrue(self.echo_once(echo.port))
        finally:
            flooding.close()
            echo.close()

    def test_a_target_that_never_reads_stalls_only_its_own_stream(self):
        release = threading.Event()
        deaf, echo = Target(lambda s: release.wait(60)), EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", deaf.port) as s:
                s.setblocking(False)
                end = time.monotonic() + 1
                while time.monotonic() < end:
                    with contextlib.suppress(BlockingIOError):
                        s.send(b"d" * 65536)
                for _ in range(20):
                    self.assertTrue(self.echo_once(echo.port))
        finally:
            release.set()
            deaf.close()
            echo.close()


if __name__ == "__main__":
    unittest.main()
