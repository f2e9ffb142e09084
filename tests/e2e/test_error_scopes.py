"""Requirement C6 through the whole product: what fails on one stream ends that stream. After every row the stream
beside it still carries bytes, both links are the ones they were, and the agent never reconnected."""

import contextlib
import json
import re
import socket
import struct
import time
import unittest

from harness import (EchoTarget, HungTarget, MeshTest, SocksRefused, Target, closed_port, receive_exactly, socks_connect,
                     wait_until)
from wire import (CLIENT_METADATA_ACK, DATA, OFFERS, OPEN_RESULT, OPEN_STREAM, PING, PONG, RESET, STRICT,
                  WINDOW_UPDATE, Closed, Peer, open_payload)

WINDOW = 262144


def abort(s):
    """Ends a connection with RST."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Row(MeshTest):
    def setUp(self):
        self.echo = EchoTarget()
        self.addCleanup(self.echo.close)
        self.beside = socks_connect(self.mesh.socks_port, "127.0.0.1", self.echo.port)
        self.addCleanup(self.beside.close)
        self.ups = self.links()

    def links(self):
        """How often a link came up and went down, by the server's log."""
        text = self.mesh.programs["server"].text()
        return {what: len(re.findall(what, text)) for what in ("agent_link_up", "agent_link_down")}

    def nothing_else_happened(self):
        self.beside.sendall(b"still here")
        self.assertEqual(receive_exactly(self.beside, 10), b"still here")
        with socks_connect(self.mesh.socks_port, "127.0.0.1", self.echo.port) as fresh:
            fresh.sendall(b"and new ones")
            self.assertEqual(receive_exactly(fresh, 12), b"and new ones")
        self.assertEqual(self.links(), self.ups, "the agent's link is the one it was")

    def target(self, handle):
        target = Target(handle)
        self.addCleanup(target.close)
        return target

    def refused(self, host, port, reply):
        with self.assertRaises(SocksRefused) as caught:
            socks_connect(self.mesh.socks_port, host, port)
        self.assertEqual(caught.exception.reply, reply)
        self.nothing_else_happened()


class OpeningFails(Row):
    def test_dns(self):
        self.refused("nowhere.invalid", 80, 4)

    def test_refusal(self):
        self.refused("127.0.0.1", closed_port(), 5)

    def test_many_refusals_never_make_the_agent_reconnect(self):
        port = closed_port()
        for _ in range(200):
            with self.assertRaises(SocksRefused):
                socks_connect(self.mesh.socks_port, "127.0.0.1", port)
        self.nothing_else_happened()

    def test_target_timeout(self):
        hung = HungTarget()
        self.addCleanup(hung.close)
        self.refused("127.0.0.1", hung.port, 6)

    def test_policy_of_the_agent(self):
        self.refused("169.254.1.1", 80, 2)


class QueueFull(Row):
    options = {"edit": lambda mesh: mesh.rewrite("server", lambda text: text.replace(
        "server:\n", "server:\n  stream:\n    max_active_per_agent: 2\n", 1))}

    def nothing_else_happened(self):
        self.beside.sendall(b"still here")
        self.assertEqual(receive_exactly(self.beside, 10), b"still here")
        self.assertEqual(self.links(), self.ups)

    def again(self):
        with contextlib.suppress(SocksRefused):
            return socks_connect(self.mesh.socks_port, "127.0.0.1", self.echo.port)
        return None

    def test_queue_full(self):
        # What setUp closed may still count.
        with wait_until(self.again, "the second place"):
            self.refused("127.0.0.1", self.echo.port, 1)
        wait_until(self.again, "the place that came free").close()
        self.nothing_else_happened()


class RunningFails(Row):
    def ends(self, s):
        """Whether the stream ended with an error at the browser, never with a clean end."""
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            while True:
                if not s.recv(65536):
                    self.fail("a broken stream looks complete")

    def test_target_read_failure(self):
        def handle(s):
            s.sendall(b"half an answer")
            s.recv(1)  # until the first part was seen
            abort(s)

        with socks_connect(self.mesh.socks_port, "127.0.0.1", self.target(handle).port) as s:
            self.assertEqual(receive_exactly(s, 14), b"half an answer")
            s.sendall(b"x")
            self.ends(s)
        self.nothing_else_happened()

    def test_target_write_failure(self):
        def handle(s):
            s.recv(1)
            abort(s)

        with socks_connect(self.mesh.socks_port, "127.0.0.1", self.target(handle).port) as s:
            with self.assertRaises((ConnectionResetError, BrokenPipeError)):
                for _ in range(1000):
                    s.sendall(b"u" * 65536)
        self.nothing_else_happened()

    def test_target_half_close_failure(self):
        def handle(s):
            while s.recv(65536):
                pass
            abort(s)

        with socks_connect(self.mesh.socks_port, "127.0.0.1", self.target(handle).port) as s:
            s.sendall(b"request")
            s.shutdown(socket.SHUT_WR)
            self.ends(s)
        self.nothing_else_happened()


class ScriptedClient(Row):
    """What our own client never does, on a link of its own."""

    def setUp(self):
        super().setUp()
        token = re.search(r"token:\s*\"?([^\"\s]+)", self.mesh.read("client")).group(1)
        self.agent_id = re.search(r"\n\s*id:\s*\"?([^\"\s]+)", self.mesh.read("agent")).group(1)
        self.peer = Peer(self.mesh.http_port, "/ws/client", token, OFFERS[1:])
        self.addCleanup(self.peer.close)
        self.token = token

    def open(self, stream, port):
        self.peer.send(OPEN_STREAM, stream, open_payload("127.0.0.1", port, self.agent_id), STRICT, WINDOW)

    def accepted(self, stream):
        self.open(stream, self.echo.port)
        self.assertTrue(json.loads(self.peer.expect(OPEN_RESULT, stream)[4])["accepted"])

    def this_link_works(self, stream=77):
        self.accepted(stream)
        self.peer.send(DATA, stream, b"fine")
        self.assertEqual(self.peer.expect(DATA, stream)[4], b"fine")
        self.nothing_else_happened()

    def test_window_violation(self):
        slow = self.target(lambda s: time.sleep(30))
        self.open(1, slow.port)
        self.peer.expect(OPEN_RESULT, 1)
        for _ in range(2048):  # 64 MiB pass every buffer on the way
            self.peer.send(DATA, 1, b"x" * 32768)
        self.peer.expect(RESET, 1)
        self.this_link_works()

    def test_window_update_of_zero(self):
        self.accepted(1)
        self.peer.send(WINDOW_UPDATE, 1, window=0)
        self.peer.expect(RESET, 1)
        self.this_link_works()

    def test_duplicate_stream_id(self):
        self.accepted(1)
        self.open(1, self.echo.port)
        self.peer.expect(RESET, 1)
        self.this_link_works()

    def test_frame_version_ends_that_link_only(self):
        self.peer.send(PING, payload=b"", version=2)
        with self.assertRaises(Closed):
            while True:
                self.peer.receive()
        self.nothing_else_happened()

    def test_a_client_without_a_hello_stays_connected(self):
        """WIRE 1.6.6; the hello deadline is for agents."""
        quiet = Peer(self.mesh.http_port, "/ws/client", self.token, OFFERS)
        self.addCleanup(quiet.close)
        time.sleep(1.5)  # an agent would be gone after one second
        quiet.send(PING, payload=b"12345678")
        self.assertEqual(quiet.expect(PONG)[4], b"12345678")
        for stream in (1, 2):
            quiet.send(OPEN_STREAM, stream, open_payload("127.0.0.1", self.echo.port, self.agent_id), STRICT, WINDOW)
        kinds = [quiet.receive() for _ in range(3)]
        acks = [json.loads(f[4]) for f in kinds if f[0] == CLIENT_METADATA_ACK]
        self.assertEqual([(a["accepted"], a["errors"][0]["name"], a["errors"][0]["code"]) for a in acks],
                         [(False, "client_hello", "invalid_frame")], "told once")
        self.assertEqual(sorted(f[2] for f in kinds if f[0] == OPEN_RESULT), [1, 2])
        self.nothing_else_happened()


if __name__ == "__main__":
    unittest.main()
