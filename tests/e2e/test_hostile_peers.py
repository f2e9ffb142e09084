"""Bad input at the server's door: one clear answer each, and nothing else is harmed."""

import json
import re
import socket
import time
import unittest

from harness import EchoTarget, MeshTest, UdpEcho, http_get, receive_exactly, socks_connect
from wire import (AGENT_HELLO, CLIENT_HELLO, DATA, HALF_CLOSE, OFFERS, OPEN_RESULT, OPEN_STREAM, PING, PONG, RESET,
                  STRICT, WINDOW_UPDATE, Closed, Peer, Rejected, frame, open_payload, request_text)


def yaml_value(text, key):
    return re.search(rf"^\s*{key}:\s*[\"']?([^\"'\s]+)", text, re.M).group(1)


class HostileCase(MeshTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.token = yaml_value(cls.mesh.read("client"), "token")
        cls.agent_token = yaml_value(cls.mesh.read("agent"), "token")
        cls.agent_id = yaml_value(cls.mesh.read("agent"), "id")
        cls.echo = EchoTarget()

    @classmethod
    def tearDownClass(cls):
        cls.echo.close()
        super().tearDownClass()

    def setUp(self):
        self.held = socks_connect(self.mesh.socks_port, "127.0.0.1", self.echo.port)
        self.addCleanup(self.held.close)

    def tearDown(self):
        # Whatever the test did: the innocent stream of another link lives.
        self.held.sendall(b"innocent")
        self.assertEqual(receive_exactly(self.held, 8), b"innocent")
        super().tearDown()

    def peer(self, offers=OFFERS[1:2], **more):
        return Peer(self.mesh.http_port, "/ws/client", self.token, offers, **more)

    def open(self, peer, stream, **more):
        peer.send(OPEN_STREAM, stream, open_payload("127.0.0.1", self.echo.port, self.agent_id, **more),
                  flags=STRICT, window=262144)
        return json.loads(peer.expect(OPEN_RESULT, stream)[4])


class Handshake(HostileCase):
    def rejected(self, path="/ws/client", token=None, **request):
        with self.assertRaises(Rejected) as caught:
            Peer(self.mesh.http_port, path, self.token if token is None else token, **request)
        return caught.exception.status

    def test_wrong_token(self):
        self.assertIn(self.rejected(token="x" * 43), (401, 403))

    def test_agent_token_on_the_client_path(self):
        self.assertIn(self.rejected(token=self.agent_token), (401, 403))

    def test_no_origin(self):
        self.assertEqual(self.rejected(origin=None), 403)

    def test_two_origins(self):
        self.assertEqual(self.rejected(extra=("Origin: http://other.example",)), 403)

    def test_origin_with_a_path(self):
        self.assertEqual(self.rejected(origin="http://test.example/path"), 403)

    def test_token_in_the_url(self):
        self.assertEqual(self.rejected(path=f"/ws/client?token={self.token}"), 400)
        self.assertNotIn(self.token, self.mesh.programs["server"].text())

    def test_wrong_path(self):
        self.assertEqual(self.rejected(path="/ws/other"), 404)
        self.assertEqual(self.rejected(path="/ws/client/v1"), 404)

    def test_plain_http_on_the_ws_paths(self):
        for path in ("/ws/client", "/ws/agent"):
            self.assertEqual(http_get(self.mesh.http_port, path)[0], 426)

    def test_sub_protocol_choice(self):
        for offered, chosen in (((), None), (OFFERS, OFFERS[0]), (OFFERS[1:], OFFERS[1]), (OFFERS[2:], OFFERS[2]),
                                (OFFERS[3:], OFFERS[3]), (("other", OFFERS[2]), OFFERS[2]), (("other",), None)):
            with self.peer(offers=offered) as peer:
                self.assertEqual(peer.protocol, chosen)

    def test_deflate_is_not_negotiated(self):
        with self.peer(extra=("Sec-WebSocket-Extensions: permessage-deflate",)) as peer:
            self.assertNotIn("extensions", peer.head.lower())

    def test_slow_and_huge_requests(self):
        with socket.create_connection(("127.0.0.1", self.mesh.http_port), timeout=60) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
            begin = time.monotonic()
            answer = s.recv(4096)
            self.assertTrue(answer == b"" or b" 408 " in answer, answer)
            self.assertGreater(time.monotonic() - begin, 1)
        with socket.create_connection(("127.0.0.1", self.mesh.http_port), timeout=60) as s:
            try:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2_000_000)
                answer = s.recv(4096)
            except (ConnectionResetError, BrokenPipeError):
                answer = b""
            self.assertTrue(answer == b"" or b" 431 " in answer, answer)

    def test_smuggling_is_refused(self):
        for lines in ("Content-Length: 0\r\nTransfer-Encoding: chunked", "Content-Length: 1\r\nContent-Length: 2",
                      "Host: b", "Transfer-Encoding : chunked"):
            with socket.create_connection(("127.0.0.1", self.mesh.http_port), timeout=30) as s:
                s.sendall(f"POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n".encode())
                self.assertIn(b" 400 ", s.recv(4096), lines)


class LinkErrors(HostileCase):
    """Errors that end that link only."""

    def ends(self, act, offers=OFFERS[1:2]):
        with self.peer(offers) as peer:
            act(peer)
            with self.assertRaises(Closed):
                for _ in range(50):
                    peer.receive()

    def test_unknown_frame_type(self):
        self.ends(lambda p: p.send(19, 1))

    def test_unknown_version(self):
        self.ends(lambda p: p.send(DATA, 1, version=2))

    def test_oversized_length(self):
        self.ends(lambda p: p.send(DATA, 1, length=1048577))
        self.ends(lambda p: p.send(OPEN_RESULT, 1, b"x" * 1025))

    def test_truncated_frame(self):
        self.ends(lambda p: p.send(OPEN_STREAM, 1, b"{}", length=100))
        self.ends(lambda p: p.send_ws(2, b"\x01\x02"))

    def test_stream_id_zero(self):
        self.ends(lambda p: p.send(DATA, 0, b"x"))

    def test_text_message(self):
        self.ends(lambda p: p.send_ws(1, frame(PING)))

    def test_unmasked_frame(self):
        self.ends(lambda p: p.send_ws(2, frame(PING), masked=False))

    def test_reserved_bits_and_opcodes(self):
        self.ends(lambda p: p.send_ws(2, frame(PING), rsv=4))
        self.ends(lambda p: p.send_ws(3, frame(PING)))

    def test_fragments_beyond_the_limit(self):
        def act(p):
            p.send_ws(2, frame(DATA, 7, length=1048576) + b"x" * 600000, fin=False)
            try:
                p.send_ws(0, b"x" * 600000)
            except (ConnectionResetError, BrokenPipeError):
                pass
        self.ends(act)


class StreamErrors(HostileCase):
    """Errors that end that stream only: the same link goes on."""

    def still_works(self, peer, stream):
        self.assertEqual(self.open(peer, stream)["code"], "ok")
        peer.send(DATA, stream, b"works")
        self.assertEqual(peer.expect(DATA, stream)[4], b"works")

    def test_open_result_has_all_five_keys_in_order(self):
        with self.peer() as peer:
            peer.send(OPEN_STREAM, 1, open_payload("127.0.0.1", self.echo.port, self.agent_id), flags=STRICT,
                      window=262144)
            self.assertEqual(peer.expect(OPEN_RESULT, 1)[4],
                             b'{"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0}')

    def test_fragmented_messages_are_reassembled(self):
        with self.peer() as peer:
            message = frame(PING, payload=b"12345678")
            peer.send_ws(2, message[:3], fin=False)
            peer.send_ws(9, b"between")
            peer.send_ws(0, message[3:20], fin=False)
            peer.send_ws(0, message[20:])
            self.assertEqual(peer.expect(PONG)[4], b"12345678")

    def test_bad_open_payloads(self):
        bad = [b"", b"not json", b"[]", b'{"target_host":1,"target_port":80,"protocol":"tcp"}',
               b'{"target_host":"a","target_port":"80","protocol":"tcp"}',
               b'{"target_host":"a","target_port":65536,"protocol":"tcp"}',
               b'{"target_host":"","target_port":1,"protocol":"tcp"}',
               b'{"x":' + b"[" * 40 + b"]" * 40 + b',"target_host":"a","target_port":1,"protocol":"tcp"}',
               open_payload("h" * 256, 80, self.agent_id), open_payload("a", 80, "g" * 256)]
        with self.peer() as peer:
            for i, payload in enumerate(bad):
                stream = 2 * i + 1
                peer.send(OPEN_STREAM, stream, payload, flags=STRICT, window=262144)
                got = peer.receive()
                self.assertIn(got[0], (OPEN_RESULT, RESET), payload)
                self.assertEqual(got[2], stream)
                if got[0] == OPEN_RESULT:
                    self.assertFalse(json.loads(got[4])["accepted"], payload)
            self.still_works(peer, 1001)

    def test_duplicate_open_resets_that_id(self):
        with self.peer() as peer:
            self.still_works(peer, 1)
            peer.send(OPEN_STREAM, 3, open_payload("127.0.0.1", self.echo.port, self.agent_id), flags=STRICT)
            peer.expect(OPEN_RESULT, 3)
            peer.send(OPEN_STREAM, 3, open_payload("127.0.0.1", self.echo.port, self.agent_id), flags=STRICT)
            peer.expect(RESET, 3)
            peer.send(DATA, 1, b"first")
            self.assertEqual(peer.expect(DATA, 1)[4], b"first")

    def test_data_while_opening_resets_that_stream(self):
        with self.peer() as peer:
            peer.send_together(frame(OPEN_STREAM, 1, open_payload("127.0.0.1", self.echo.port, self.agent_id),
                                     flags=STRICT, window=262144),
                               frame(DATA, 1, b"too early"))
            peer.expect(RESET, 1)
            self.still_works(peer, 2)

    def test_more_than_the_window_resets_that_stream(self):
        class Deaf(EchoTarget):
            def handle(self, s):
                time.sleep(20)

        deaf = Deaf()
        try:
            with self.peer() as peer:
                peer.send(OPEN_STREAM, 1, open_payload("127.0.0.1", deaf.port, self.agent_id), flags=STRICT,
                          window=262144)
                peer.expect(OPEN_RESULT, 1)
                # More than the server's window, the agent's window and every socket buffer.
                for _ in range(1024):
                    peer.send(DATA, 1, b"x" * 32768)
                peer.expect(RESET, 1)
                self.still_works(peer, 2)
        finally:
            deaf.close()

    def test_window_update_of_zero_resets_that_stream(self):
        with self.peer() as peer:
            self.assertEqual(self.open(peer, 1)["code"], "ok")
            peer.send(WINDOW_UPDATE, 1, window=0)
            peer.expect(RESET, 1)
            self.still_works(peer, 2)

    def test_window_overflow_resets_that_stream_or_saturates(self):
        with self.peer() as peer:
            self.assertEqual(self.open(peer, 1)["code"], "ok")
            peer.send(WINDOW_UPDATE, 1, window=0xFFFFFFFF)
            peer.send(WINDOW_UPDATE, 1, window=0xFFFFFFFF)
            self.still_works(peer, 2)

    def test_frames_for_unknown_streams(self):
        with self.peer() as peer:
            peer.send(RESET, 99)
            peer.send(WINDOW_UPDATE, 99, window=5)
            peer.send(HALF_CLOSE, 99)
            peer.send(DATA, 97, b"who")
            peer.send(PING, payload=b"12345678")
            kinds = []
            while True:
                got = peer.receive()
                if got[0] == PONG:
                    break
                kinds.append((got[0], got[2]))
            self.assertNotIn((RESET, 99), kinds[:1] if kinds == [(RESET, 97)] else [])
            self.assertLessEqual(len([k for k in kinds if k == (RESET, 97)]), 1)
            self.assertTrue(all(k[0] == RESET for k in kinds))
            self.still_works(peer, 1)

    def test_udp_loses_what_is_no_datagram_and_nothing_else(self):
        echo = UdpEcho()
        self.addCleanup(echo.close)
        with self.peer() as peer:
            # Strict, with a window, and credit that nobody asked for: no deployed peer does that.
            peer.send(OPEN_STREAM, 1, open_payload("127.0.0.1", echo.port, self.agent_id, protocol="udp"),
                      flags=STRICT, window=1)
            self.assertEqual(json.loads(peer.expect(OPEN_RESULT, 1)[4])["code"], "ok")
            for payload in (b"d" * 65_537, b"d" * 1_048_576, b"d" * 65_508, b"", b"datagram"):
                peer.send(DATA, 1, payload)
                peer.send(WINDOW_UPDATE, 1, window=0xFFFFFFFF)
            self.assertEqual(peer.expect(DATA, 1)[4], b"")
            self.assertEqual(peer.expect(DATA, 1)[4], b"datagram")
            self.still_works(peer, 2)

    def test_unknown_agent_is_refused_per_stream(self):
        with self.peer() as peer:
            peer.send(OPEN_STREAM, 1, open_payload("127.0.0.1", self.echo.port, "agent-of-nobody"), flags=STRICT,
                      window=262144)
            result = json.loads(peer.expect(OPEN_RESULT, 1)[4])
            self.assertIn(result["code"], ("forbidden", "agent_offline"))
            self.still_works(peer, 2)

    def test_legacy_open_is_optimistic_and_gets_no_result(self):
        with self.peer(OFFERS[3:]) as peer:
            peer.send(OPEN_STREAM, 1, open_payload("127.0.0.1", self.echo.port, self.agent_id))
            peer.send(DATA, 1, b"at once")
            kind, _, stream, _, payload = peer.receive()
            self.assertEqual((kind, stream, payload), (DATA, 1, b"at once"))


class AgentDoor(HostileCase):
    def agent(self, token=None):
        return Peer(self.mesh.http_port, "/ws/agent", token or self.agent_token)

    def hello(self, **change):
        body = {"agent_id": self.agent_id, "instance_id": "agent-" + "0" * 32, "connection_id": "c1", "node_id": "n",
                "epoch": 1, "revision": 1, "reported_at": "2026-01-02T03:04:05Z", "items": [],
                "capabilities": ["stream_open_result.v1"], **change}
        return json.dumps(body).encode()

    def test_hello_deadline_of_one_second(self):
        with self.agent() as peer:
            begin = time.monotonic()
            with self.assertRaises(Closed):
                peer.receive()
            self.assertLess(time.monotonic() - begin, 10)

    def test_hello_for_another_agent(self):
        with self.agent() as peer:
            peer.send(AGENT_HELLO, payload=self.hello(agent_id="agent-of-nobody"))
            with self.assertRaises(Closed):
                for _ in range(10):
                    kind, *_rest, payload = peer.receive()
                    if kind == 11:
                        self.assertFalse(json.loads(payload)["accepted"])

    def test_frames_before_the_hello(self):
        with self.agent() as peer:
            peer.send(CLIENT_HELLO, payload=b"{}")
            with self.assertRaises(Closed):
                peer.receive()

    def test_client_token_on_the_agent_path(self):
        with self.assertRaises(Rejected):
            self.agent(self.token)


if __name__ == "__main__":
    unittest.main()
