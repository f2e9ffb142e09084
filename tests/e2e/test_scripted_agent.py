"""A scripted agent behind the real server and client: what a wrong, old or hostile agent can do."""

import json
import re
import select
import socket
import struct
import threading
import unittest

from harness import WAIT_S, MeshTest, receive_exactly, socks_address, wait_until
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, AGENT_METADATA_UPDATE, DATA, HALF_CLOSE, OPEN_RESULT, OPEN_STREAM,
                  PING, PONG, RESET, STRICT, WINDOW_UPDATE, Closed, Peer, frame)

ACCEPTED = b'{"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0}'


class Request:
    """A SOCKS5 CONNECT in the background; reply() waits for its outcome."""

    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.s.sendall(b"\x05\x01\x00")
        assert receive_exactly(self.s, 2) == b"\x05\x00"
        self.s.sendall(b"\x05\x01\x00" + socks_address("target.example") + struct.pack(">H", 80))

    def reply(self):
        return receive_exactly(self.s, 10)[1]

    def close(self):
        self.s.close()


class ScriptedAgent(MeshTest):
    options = {"start": ("server", "client")}

    def setUp(self):
        text = self.mesh.read("agent")
        self.token = re.search(r"token:\s*\"?([^\"\s]+)", text).group(1)
        self.agent_id = re.search(r"\n\s*id:\s*\"?([^\"\s]+)", text).group(1)
        self.count = getattr(type(self), "count", 0) + 1
        type(self).count = self.count

    def hello(self, **change):
        body = {"agent_id": self.agent_id, "instance_id": "agent-" + "0" * 32,
                "connection_id": f"c{self.count}-{change.get('epoch', 1)}", "node_id": "n1", "epoch": 1, "revision": 1,
                "reported_at": "2026-01-02T03:04:05Z", "items": [], "capabilities": ["stream_open_result.v1"]}
        body.update(change)
        return json.dumps(body).encode()

    def agent(self, **change):
        peer = Peer(self.mesh.http_port, "/ws/agent", self.token)
        self.addCleanup(peer.close)
        peer.send(AGENT_HELLO, payload=self.hello(**change))
        ack = json.loads(peer.expect(AGENT_METADATA_ACK)[4])
        self.assertTrue(ack["accepted"], ack)
        return peer

    def request(self):
        """A CONNECT once the client's link is there."""
        request = Request(self.mesh.socks_port)
        self.addCleanup(request.close)
        return request

    def open(self, peer):
        """The next CONNECT as the agent sees it: (request, stream id, flags, window, payload)."""
        def asked():
            request = self.request()
            while True:
                ends = [peer.s, request.s]
                if peer.buffer or peer.s in (readable := select.select(ends, [], [], WAIT_S)[0]):
                    kind, flags, stream, window, payload = peer.receive()
                    if kind == OPEN_STREAM:
                        return request, stream, flags, window, json.loads(payload)
                    continue
                self.assertIn(request.s, readable, "neither the agent nor an answer")
                self.assertEqual(request.reply(), 4)  # the client's link or our registration is not there yet
                return None

        return wait_until(asked, "a CONNECT that reaches the agent")

    def still_works(self, peer):
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, ACCEPTED)
        self.assertEqual(request.reply(), 0)
        request.s.sendall(b"up")
        self.assertEqual(peer.expect(DATA, stream)[4], b"up")
        peer.send(DATA, stream, b"down")
        self.assertEqual(receive_exactly(request.s, 4), b"down")

    def test_what_the_agent_is_asked(self):
        peer = self.agent()
        _, stream, flags, window, payload = self.open(peer)
        self.assertEqual(flags & STRICT, STRICT)
        self.assertGreater(window, 0, "a deployed agent takes a window > 0 as the sign of flow control")
        self.assertEqual(payload["target_host"], "target.example")
        self.assertEqual((payload["target_port"], payload["protocol"]), (80, "tcp"))
        self.assertNotIn("relay", payload)
        self.assertGreater(stream, 0)
        self.still_works(peer)

    def test_ack_comes_before_any_open(self):
        peer = Peer(self.mesh.http_port, "/ws/agent", self.token)
        self.addCleanup(peer.close)
        request = self.request()
        peer.send(AGENT_HELLO, payload=self.hello())
        self.assertEqual(peer.receive()[0], AGENT_METADATA_ACK)
        request.close()

    def test_bad_open_results_end_that_stream_only(self):
        peer = self.agent()
        bad = [b"", b"null", b"[]", b'{"accepted":"yes"}', b'{"accepted":true,"stage":"connect","code":"timeout"}',
               b'{"accepted":true,"stage":"connect","code":1}', b'{"a":' + b"[" * 30 + b"]" * 30 + b"}",
               ACCEPTED + b"x", b'{"accepted":true,"stage":"connect","code":"ok","retry_after_ms":-1}']
        for payload in bad:
            request, stream, *_ = self.open(peer)
            peer.send(OPEN_RESULT, stream, payload)
            self.assertEqual(request.reply(), 1, payload)
        self.still_works(peer)

    def test_unknown_code_is_a_general_failure(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, b'{"accepted":false,"stage":"moon","code":"eclipse"}')
        self.assertEqual(request.reply(), 1)
        self.still_works(peer)

    def test_every_refusal_reaches_the_browser(self):
        peer = self.agent()
        for code, reply in (("forbidden", 2), ("network_unreachable", 3), ("host_unreachable", 4),
                            ("connection_refused", 5), ("timeout", 6), ("queue_full", 1), ("internal_error", 1)):
            request, stream, *_ = self.open(peer)
            peer.send(OPEN_RESULT, stream, json.dumps({"accepted": False, "stage": "connect", "code": code}).encode())
            self.assertEqual(request.reply(), reply, code)
        self.still_works(peer)

    def test_open_result_of_1025_bytes_ends_the_link(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, ACCEPTED + b" " * (1025 - len(ACCEPTED)))
        self.assertEqual(request.reply(), 4)
        with self.assertRaises(Closed):
            while True:
                peer.receive()
        self.still_works(self.agent(epoch=2))

    def test_second_open_result_resets_that_stream(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, ACCEPTED)
        self.assertEqual(request.reply(), 0)
        peer.send(OPEN_RESULT, stream, ACCEPTED)
        peer.expect(RESET, stream)
        with self.assertRaises((ConnectionResetError, OSError)):
            receive_exactly(request.s, 1)
        self.still_works(peer)

    def test_accepted_answered_and_reset_in_one_go(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send_together(frame(OPEN_RESULT, stream, ACCEPTED), frame(DATA, stream, b"go away"), frame(RESET, stream))
        self.assertEqual(request.reply(), 0)
        self.assertEqual(receive_exactly(request.s, 7), b"go away")
        with self.assertRaises((ConnectionResetError, OSError)):
            receive_exactly(request.s, 1)
        self.still_works(peer)

    def test_reset_instead_of_an_answer(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(RESET, stream)
        self.assertEqual(request.reply(), 1)
        self.still_works(peer)

    def test_agent_gone_while_opening(self):
        peer = self.agent()
        request, *_ = self.open(peer)
        peer.close()
        self.assertEqual(request.reply(), 4)

    def test_agent_without_open_result_is_served_legacy(self):
        peer = self.agent(capabilities=[])
        request = None

        def accepted():
            nonlocal request
            request = self.request()
            return request.reply() == 0

        wait_until(accepted, "an optimistic success")
        kind, flags, stream, window, _ = peer.expect(OPEN_STREAM)
        self.assertEqual(flags & STRICT, 0)
        self.assertEqual(window, 0)
        request.s.sendall(b"up")
        self.assertEqual(peer.expect(DATA, stream)[4], b"up")
        peer.send(DATA, stream, b"down")
        self.assertEqual(receive_exactly(request.s, 4), b"down")

    def test_credit_never_exceeds_what_was_taken(self):
        """R1: the client's credit and the server's own must not both reach the agent."""
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, ACCEPTED)
        self.assertEqual(request.reply(), 0)
        total = 4 * 1024 * 1024
        got = []
        reader = threading.Thread(target=lambda: got.append(len(receive_exactly(request.s, total))))
        reader.start()
        credit, sent = 262144, 0
        while sent < total:
            if credit - sent < 32768:
                kind, _, _, increment, _ = peer.expect(WINDOW_UPDATE, stream)
                self.assertGreater(increment, 0)
                credit += increment
                self.assertLessEqual(credit - 262144, sent, "more credit than bytes that can have been taken")
                continue
            peer.send(DATA, stream, b"x" * 32768)
            sent += 32768
        reader.join()
        self.assertEqual(got, [total])

    def test_more_than_the_window_ends_that_stream_only(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, ACCEPTED)
        self.assertEqual(request.reply(), 0)
        for _ in range(1024):  # nobody reads: 32 MiB pass every buffer on the way
            peer.send(DATA, stream, b"x" * 32768)
        peer.expect(RESET, stream)
        self.still_works(peer)

    def test_half_close_and_ping(self):
        peer = self.agent()
        request, stream, *_ = self.open(peer)
        peer.send(OPEN_RESULT, stream, ACCEPTED)
        self.assertEqual(request.reply(), 0)
        request.s.sendall(b"all")
        request.s.shutdown(socket.SHUT_WR)
        self.assertEqual(peer.expect(DATA, stream)[4], b"all")
        peer.expect(HALF_CLOSE, stream)
        peer.send(PING, payload=b"")
        self.assertEqual(peer.expect(PONG)[4], b"")
        peer.send(DATA, stream, b"late")
        peer.send(HALF_CLOSE, stream)
        self.assertEqual(receive_exactly(request.s, 4), b"late")
        self.assertEqual(request.s.recv(1), b"")

    def test_metadata_that_is_refused_keeps_the_session(self):
        peer = self.agent()
        for change, code in ((dict(revision=0), "invalid_revision"), (dict(revision=2, node_id="n2"), "identity_mismatch"),
                             (dict(revision=2, epoch=9), "stale_epoch"), (dict(revision=1, items=[
                                 {"name": "x", "source": "env", "value": "1"}]), "revision_conflict")):
            peer.send(AGENT_METADATA_UPDATE, payload=self.hello(**{"connection_id": f"c{self.count}-1", **change}))
            ack = json.loads(peer.expect(AGENT_METADATA_ACK)[4])
            self.assertFalse(ack["accepted"], change)
            self.assertEqual(ack["errors"][0]["code"], code, change)
        peer.send(AGENT_METADATA_UPDATE, payload=b"{")
        self.assertEqual(json.loads(peer.expect(AGENT_METADATA_ACK)[4])["errors"][0]["code"], "invalid_payload")
        self.still_works(peer)


if __name__ == "__main__":
    unittest.main()
