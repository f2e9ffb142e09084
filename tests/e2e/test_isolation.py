"""One slow, hung or broken target never touches another stream (requirements C6, K1, K6)."""

import concurrent.futures
import contextlib
import json
import signal
import threading
import time
import unittest

from harness import (EchoTarget, HungTarget, Mesh, MeshTest, SocksRefused, Target, closed_port, receive_exactly,
                     socks_connect)
from measure import client_identity, open_frame, scripted_client
from wire import DATA, OPEN_RESULT, PING, PONG


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
        closed = closed_port()
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

    def test_a_link_answers_pings_and_opens_while_an_upload_of_its_own_is_stalled(self):
        release = threading.Event()
        deaf, echo = Target(lambda s: release.wait(60)), EchoTarget()
        token, agent_id = client_identity(self.mesh)
        try:
            with scripted_client(self.mesh, token) as peer:
                peer.send_together(open_frame(1, deaf.port, agent_id), open_frame(2, echo.port, agent_id))
                for _ in (1, 2):
                    self.assertEqual(json.loads(peer.expect(OPEN_RESULT)[4])["code"], "ok")
                for _ in range(8):  # one whole window; its credit does not come back in full
                    peer.send(DATA, 1, b"d" * 32768)
                for i in range(20):
                    peer.send(PING, payload=b"%08d" % i)
                    peer.send(DATA, 2, b"beside")
                    self.assertEqual(peer.expect(DATA, 2)[4], b"beside")
                    if i == 10:
                        peer.send_together(open_frame(3, echo.port, agent_id))
                        self.assertEqual(json.loads(peer.expect(OPEN_RESULT, 3)[4])["code"], "ok")
                peer.send(PING, payload=b"the last")
                while peer.expect(PONG)[4] != b"the last":
                    pass
        finally:
            release.set()
            deaf.close()
            echo.close()


class FrozenAgent(unittest.TestCase):
    def test_an_agent_that_stands_still_does_not_hold_up_a_client_link(self):
        mesh = Mesh()
        echo = EchoTarget()
        token, agent_id = client_identity(mesh)
        try:
            with scripted_client(mesh, token) as peer:
                mesh.programs["agent"].process.send_signal(signal.SIGSTOP)
                peer.send_together(*(open_frame(i, echo.port, agent_id) for i in range(1, 101)))
                for i in range(20):
                    peer.send(PING, payload=b"%08d" % i)
                    begin = time.monotonic()
                    self.assertEqual(peer.expect(PONG)[4], b"%08d" % i)
                    self.assertLess(time.monotonic() - begin, 5)
                # The opens are answered in the end, each by itself, and the link goes on.
                for _ in range(100):
                    self.assertFalse(json.loads(peer.expect(OPEN_RESULT)[4])["accepted"])
                peer.send(PING, payload=b"still up")
                self.assertEqual(peer.expect(PONG)[4], b"still up")
        finally:
            mesh.programs["agent"].process.send_signal(signal.SIGCONT)
            echo.close()
            mesh.close()


if __name__ == "__main__":
    unittest.main()
