"""Early data (WIRE E) through the real server, between a scripted client and a scripted agent that both name it."""

import json
import re
import unittest

from harness import MeshTest
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, CLIENT_HELLO, CLIENT_METADATA_ACK, DATA, HALF_CLOSE, OFFERS,
                  OPEN_RESULT, OPEN_STREAM, PING, PONG, RESET, STRICT, WINDOW_UPDATE, Peer, frame, open_payload)

ACCEPTED = b'{"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0}'
REFUSED = b'{"accepted":false,"stage":"connect","code":"connection_refused","retryable":false,"retry_after_ms":0}'
OURS = ["stream_open_result.v1", "stream_flow_control.v1", "stream_fair_writer.v1"]
EARLY = "stream_early_data.v1"
MOST = 16384
WINDOW = 262144


class Scripted(MeshTest):
    options = {"start": ("server",)}

    def setUp(self):
        text = self.mesh.read("agent")
        self.agent_token = re.search(r"token:\s*\"?([^\"\s]+)", text).group(1)
        self.agent_id = re.search(r"\n\s*id:\s*\"?([^\"\s]+)", text).group(1)
        self.client_token = re.search(r"token:\s*\"?([^\"\s]+)", self.mesh.read("client")).group(1)
        self.number = getattr(type(self), "number", 0) + 1
        type(self).number = self.number
        self.next_id = 1

    def agent(self, *extra):
        """The agent's link of this test; a link of an earlier one is gone first."""
        peer = Peer(self.mesh.http_port, "/ws/agent", self.agent_token)
        self.addCleanup(peer.close)
        body = {"agent_id": self.agent_id, "instance_id": "agent-" + "0" * 32, "connection_id": "c1", "node_id": "n1",
                "epoch": self.number, "revision": 1, "reported_at": "2026-01-02T03:04:05Z", "items": [],
                "capabilities": OURS + list(extra) + ["tcp", "udp", "http"]}
        peer.send(AGENT_HELLO, payload=json.dumps(body).encode())
        self.agent_ack = json.loads(peer.expect(AGENT_METADATA_ACK)[4])
        self.assertTrue(self.agent_ack["accepted"], self.agent_ack)
        return peer

    def client(self, *extra):
        peer = Peer(self.mesh.http_port, "/ws/client", self.client_token, OFFERS)
        self.addCleanup(peer.close)
        self.assertEqual(peer.protocol, OFFERS[0])
        body = {"instance_id": "client-" + "0" * 32, "process_start_at": "2026-01-02T03:04:05Z",
                "reported_at": "2026-01-02T03:04:05Z", "revision": 1, "capabilities": OURS + list(extra)}
        peer.send(CLIENT_HELLO, payload=json.dumps(body).encode())
        self.client_ack = json.loads(peer.expect(CLIENT_METADATA_ACK)[4])
        self.assertTrue(self.client_ack["accepted"], self.client_ack)
        return peer

    def open(self, client, early=b""):
        """OPEN_STREAM and early data in one write; the stream's id."""
        stream, self.next_id = self.next_id, self.next_id + 1
        frames = [frame(OPEN_STREAM, stream, open_payload("127.0.0.1", 80, self.agent_id), STRICT, WINDOW)]
        if early:
            frames.append(frame(DATA, stream, early))
        client.send_together(*frames)
        return stream

    def until_pong(self, peer):
        """Everything the peer is sent before its PING comes back."""
        peer.send(PING, payload=b"mark")
        got = []
        while True:
            item = peer.receive()
            if item[0] == PONG and item[4] == b"mark":
                return got
            if item[0] == PING:
                peer.send(PONG, payload=item[4])
            else:
                got.append(item)

    def result(self, client, stream):
        return json.loads(client.expect(OPEN_RESULT, stream)[4])

    def still_works(self, client, agent):
        stream = self.open(client)
        there = agent.expect(OPEN_STREAM)[2]
        agent.send(OPEN_RESULT, there, ACCEPTED)
        self.assertTrue(self.result(client, stream)["accepted"])
        client.send(DATA, stream, b"ping")
        self.assertEqual(agent.expect(DATA, there)[4], b"ping")


class EarlyData(Scripted):
    def test_it_is_acknowledged_by_name_and_protocols_are_not(self):
        self.agent(EARLY)
        self.client(EARLY)
        self.assertEqual(self.agent_ack["capabilities"], OURS + [EARLY])
        self.assertEqual(self.client_ack["capabilities"], OURS + [EARLY])

    def test_it_goes_on_while_the_agent_dials(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"GET / ")
        there = agent.expect(OPEN_STREAM)[2]
        self.assertEqual(agent.receive()[:3:2], (DATA, there))
        client.send(DATA, stream, b"HTTP/1.1")
        self.assertEqual(agent.expect(DATA, there)[4], b"HTTP/1.1")
        self.assertEqual(self.until_pong(client), [], "no answer before the agent's")
        agent.send_together(frame(OPEN_RESULT, there, ACCEPTED), frame(DATA, there, b"200"))
        self.assertTrue(self.result(client, stream)["accepted"])
        self.assertEqual(client.receive()[4], b"200")
        client.send_together(frame(DATA, stream, b"more"), frame(HALF_CLOSE, stream))
        self.assertEqual(agent.expect(DATA, there)[4], b"more")
        agent.expect(HALF_CLOSE, there)

    def test_it_is_held_for_an_agent_that_does_not_know_it(self):
        agent, client = self.agent(), self.client(EARLY)
        self.assertNotIn(EARLY, self.agent_ack["capabilities"])
        stream = self.open(client, b"e" * MOST)
        there = agent.expect(OPEN_STREAM)[2]
        self.assertEqual(self.until_pong(agent), [], "nothing before its answer")
        agent.send(OPEN_RESULT, there, ACCEPTED)
        got = b""
        while len(got) < MOST:
            got += agent.expect(DATA, there)[4]
        self.assertEqual(got, b"e" * MOST)
        self.assertTrue(self.result(client, stream)["accepted"])

    def test_one_byte_more_than_allowed_ends_that_stream_only(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"e" * MOST)
        there = agent.expect(OPEN_STREAM)[2]
        self.assertEqual(len(agent.expect(DATA, there)[4]), MOST)
        client.send(DATA, stream, b"x")
        client.expect(RESET, stream)
        agent.expect(RESET, there)
        self.still_works(client, agent)

    def test_a_client_that_did_not_name_it_is_held_to_the_rule(self):
        agent, client = self.agent(EARLY), self.client()
        stream = self.open(client, b"early")
        client.expect(RESET, stream)
        self.still_works(client, agent)

    def test_a_refusal_drops_it_and_costs_nothing(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        for _ in range(50):  # more bytes than one window, all of them dropped
            stream = self.open(client, b"e" * MOST)
            there = agent.expect(OPEN_STREAM)[2]
            agent.expect(DATA, there)
            agent.send(OPEN_RESULT, there, REFUSED)
            self.assertEqual(self.result(client, stream)["code"], "connection_refused")
        self.assertEqual(self.until_pong(client), [])
        self.assertEqual([f for f in self.until_pong(agent) if f[0] == DATA], [])
        self.still_works(client, agent)

    def test_a_reset_of_the_client_reaches_the_agent(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"early")
        there = agent.expect(OPEN_STREAM)[2]
        agent.expect(DATA, there)
        client.send(RESET, stream)
        agent.expect(RESET, there)
        agent.send(OPEN_RESULT, there, ACCEPTED)  # it crossed the RESET
        self.assertEqual(self.until_pong(client), [], "a RESET is not answered")
        self.still_works(client, agent)

    def test_a_reset_of_the_agent_is_a_refusal(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"early")
        there = agent.expect(OPEN_STREAM)[2]
        agent.send(RESET, there)
        self.assertFalse(self.result(client, stream)["accepted"])
        self.still_works(client, agent)

    def test_an_agent_that_goes_is_a_refusal(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"early")
        agent.expect(OPEN_STREAM)
        agent.close()
        self.assertEqual(self.result(client, stream)["code"], "agent_offline")

    def test_credit_counts_early_bytes_when_they_were_passed_on(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"e" * MOST)
        there = agent.expect(OPEN_STREAM)[2]
        agent.expect(DATA, there)
        self.assertEqual([f for f in self.until_pong(client) if f[0] == WINDOW_UPDATE], [], "not for 16 KiB")
        agent.send(OPEN_RESULT, there, ACCEPTED)
        self.assertTrue(self.result(client, stream)["accepted"])
        half = WINDOW // 2  # where credit becomes due, if the early bytes count
        left = half - MOST
        while left > 0:
            n = min(left, 32768)
            client.send(DATA, stream, b"d" * n)
            left -= n
        seen = MOST
        while seen < half:
            seen += len(agent.expect(DATA, there)[4])
        self.assertEqual(client.expect(WINDOW_UPDATE, stream)[3], half)

    def test_bytes_of_one_stream_wait_for_no_other(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        first = self.open(client, b"1" * MOST)
        second = self.open(client, b"2")
        ids = [agent.expect(OPEN_STREAM)[2]]
        while len(ids) < 2:
            kind, _, stream, _, _ = agent.receive()
            if kind == OPEN_STREAM:
                ids.append(stream)
        agent.send(OPEN_RESULT, ids[1], ACCEPTED)
        self.assertTrue(self.result(client, second)["accepted"])
        agent.send(OPEN_RESULT, ids[0], REFUSED)
        self.assertFalse(self.result(client, first)["accepted"])


class SwitchedOff(Scripted):
    """I2: with the capability switched off on the server everything is as before."""

    options = {"start": ("server",), "edit": lambda mesh: mesh.rewrite(
        "server", lambda text: text.replace("server:\n", "server:\n  capabilities:\n    early_data: false\n", 1))}

    def test_it_is_not_acknowledged(self):
        self.agent(EARLY)
        self.client(EARLY)
        self.assertEqual(self.agent_ack["capabilities"], OURS)
        self.assertEqual(self.client_ack["capabilities"], OURS)

    def test_data_while_opening_resets_that_stream(self):
        agent, client = self.agent(EARLY), self.client(EARLY)
        stream = self.open(client, b"early")
        client.expect(RESET, stream)
        self.still_works(client, agent)


if __name__ == "__main__":
    unittest.main()
