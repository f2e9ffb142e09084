"""Deployed agents behind our server: what is particular about each version."""

import json
import os
import signal
import socket
import threading
import unittest

from fleet_agent import FleetAgent
from fleet_chain import OURS, Chain
from fleet_client import FleetClient
from fleet_versions import CHUNK, V8, V9, V10, V11, WINDOW, go_json
from harness import SocksRefused, Target, closed_port, wait_until
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, AGENT_METADATA_UPDATE, DATA, GOAWAY, OPEN_RESULT, OPEN_STREAM,
                  Closed, Peer)

MIB = 1 << 20


class AgentCase(unittest.TestCase):
    def chain(self, *ends, **options):
        chain = Chain(*ends, **options)
        self.addCleanup(chain.close)
        return chain

    def target(self, handle):
        target = Target(handle)
        self.addCleanup(target.close)
        return target

    def new_agent(self, chain, version, **options):
        agent = FleetAgent(version, chain.port, chain.agent_token, chain.agent_id, **options)
        self.addCleanup(agent.close)
        return agent


class V8Agent(AgentCase):
    def test_hello_without_ids_and_capabilities(self):
        chain = self.chain(OURS, OURS, V8)
        ack = chain.agent.ack
        self.assertTrue(ack["accepted"])
        self.assertFalse({"stream_open_result.v1", "stream_flow_control.v1"} & set(ack.get("capabilities") or []))
        chain.check()

    def test_a_failed_dial_that_ends_its_session(self):
        """Its error goes up to the session: our server loses the link, and nothing else."""
        chain = self.chain(OURS, OURS, V8, agent_options={"fatal_dials": True})
        with self.assertRaises(OSError):
            flow = chain.connect(closed_port())
            if flow.recv(1) == b"":
                raise ConnectionResetError
        chain.agent.link.wait(lambda: chain.agent.link.closed, "its end")
        chain.agent = self.new_agent(chain, V8)
        chain.scripted = [chain.agent.link]
        wait_until(chain.echoes, "the agent that came again")
        chain.check()

    def test_early_data_of_a_legacy_client_goes_to_it(self):
        chain = self.chain(V8, OURS, V8)
        flow = chain.client.open("127.0.0.1", chain.echo_target.port)
        flow.sendall(b"early" * 5000)
        self.assertEqual(flow.receive_exactly(25000), b"early" * 5000)
        flow.close()
        chain.check()


class V9Agent(AgentCase):
    def test_what_is_acknowledged(self):
        for version in (V9, V10, V11):
            chain = self.chain(OURS, OURS, version)
            self.assertEqual(chain.agent.ack["capabilities"], ["stream_open_result.v1"])
            self.assertEqual(chain.agent.link.frames[0][0], AGENT_METADATA_ACK)
            chain.check()

    def test_empty_ping_is_echoed(self):
        chain = self.chain(OURS, OURS, V9)
        chain.agent.ping()
        self.assertEqual(set(chain.agent.pongs), {b""})
        chain.check()

    def test_windows_are_honoured_in_both_directions(self):
        """The books of the link fault a byte too much, either way; here they are full of bytes."""
        chain = self.chain(OURS, OURS, V9)
        flow = chain.connect(chain.echo_target.port)
        self.addCleanup(flow.close)
        data = os.urandom(4 * MIB)
        sender = threading.Thread(target=flow.sendall, args=(data,))
        sender.start()
        self.assertEqual(flow.receive_exactly(len(data)), data)
        sender.join()
        stream = list(chain.agent.link.streams.values())[-1]
        with chain.agent.link.lock:
            self.assertLessEqual(stream.granted_in, stream.sent)
            self.assertGreaterEqual(stream.granted_in, stream.sent - WINDOW)
            self.assertEqual(stream.received, len(data))
        chain.check()

    def test_no_credit_before_the_reader_reads(self):
        """LESSONS R1, R2: 1,382,571 bytes wait behind a browser that does not read yet."""
        chain = self.chain(V10, OURS, V9)
        size = 1_382_571
        body = os.urandom(size)
        for _ in range(10):
            flow = chain.connect(self.target(lambda s: s.sendall(body)).port)
            stream = list(chain.agent.link.streams.values())[-1]
            chain.client.link.wait(lambda: flow.stream.credit_in == 0, "a full window")
            chain.agent.ping()
            with chain.agent.link.lock:
                # What left for the client was credited, and no more.
                self.assertLessEqual(stream.granted_in, WINDOW)
                self.assertLessEqual(stream.sent, 2 * WINDOW)
            self.assertEqual(flow.read_to_end(), body)
            flow.close()
        chain.check()

    def test_late_result_is_ignored(self):
        """Its OPEN_RESULT crosses the RESET of an open that was given up."""
        chain = self.chain(V9, OURS, V9)
        agent = chain.agent
        hold = threading.Event()
        serve = agent._serve

        def late(stream):
            hold.wait(30)
            serve(stream)

        agent._serve = late
        before = agent.link.count(OPEN_STREAM)
        flow = chain.client.open("127.0.0.1", chain.echo_target.port)
        agent.link.wait(lambda: agent.link.count(OPEN_STREAM) > before, "the open")
        flow.abort()
        agent.link.wait(lambda: list(agent.link.streams.values())[-1].reset_in, "the RESET")
        stream = list(agent.link.streams.values())[-1]
        agent.link.send(OPEN_RESULT, stream.id, go_json({"accepted": True, "stage": "connect", "code": "ok"}))
        agent.link.send(DATA, stream.id, b"late, too")
        agent._serve = serve
        hold.set()
        chain.check()

    def test_data_behind_its_reset_is_ignored_whatever_it_answers(self):
        """The target breaks during an upload; what still arrives the agent answers with RESET each time."""
        def handle(s):
            s.recv(1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        chain = self.chain(OURS, OURS, V9)
        for _ in range(5):
            flow = chain.connect(self.target(handle).port)
            with self.assertRaises(OSError):
                for _ in range(100):
                    flow.sendall(b"u" * CHUNK)
                flow.receive_exactly(1)
            flow.close()
        chain.check()

    def test_goaway_is_the_last_frame_of_a_drain(self):
        """It ends its session on GOAWAY at once, so a running download must be over by then."""
        chain = self.chain(OURS, OURS, V9)
        go = threading.Event()

        def handle(s):
            s.sendall(b"first half ")
            go.wait(30)
            s.sendall(b"second half")

        flow = chain.connect(self.target(handle).port)
        self.assertEqual(flow.receive_exactly(11), b"first half ")
        # One that keeps its streams after GOAWAY: when it gets one, the others were passed over.
        ours = Peer(chain.port, "/ws/agent", chain.agent_token)
        self.addCleanup(ours.close)
        ours.send(AGENT_HELLO, payload=go_json({
            "agent_id": chain.agent_id, "connection_id": "ours", "node_id": "n", "epoch": 1, "revision": 1,
            "reported_at": "2026-09-24T07:08:09Z", "items": [], "capabilities": ["stream_fair_writer.v1"]}))
        ours.expect(AGENT_METADATA_ACK)
        server = chain.mesh.programs["server"]
        server.process.send_signal(signal.SIGTERM)
        ours.expect(GOAWAY)
        chain.agent.ping()
        self.assertEqual(chain.agent.link.count(GOAWAY), 0)
        go.set()
        self.assertEqual(flow.read_to_end(), b"second half")
        flow.close()
        chain.agent.link.closing = True
        self.assertEqual(server.process.wait(30), 0)
        chain.agent.link.wait(lambda: chain.agent.link.closed, "the end of its link")
        kinds = [f[0] for f in chain.agent.link.frames]
        self.assertNotIn(GOAWAY, kinds[:-1])
        self.assertEqual(chain.faults(), [])

    def test_a_new_epoch_takes_its_connection_id_over(self):
        """A slot of a deployed agent keeps its connection id and counts its epoch up."""
        chain = self.chain(OURS, OURS, V9)
        body = {"agent_id": chain.agent_id, "instance_id": "agent-" + "0" * 32, "connection_id": "slot-1",
                "node_id": "n", "revision": 1, "reported_at": "2026-09-24T07:08:09Z", "items": [],
                "capabilities": ["stream_open_result.v1"]}
        peers = []
        for epoch in (7, 8):
            peers.append(Peer(chain.port, "/ws/agent", chain.agent_token))
            self.addCleanup(peers[-1].close)
            peers[-1].send(AGENT_HELLO, payload=go_json(body | {"epoch": epoch}))
            self.assertTrue(json.loads(peers[-1].expect(AGENT_METADATA_ACK)[4])["accepted"])
        with self.assertRaises(Closed):
            peers[0].receive()
        for peer in peers:
            peer.close()
        wait_until(chain.echoes, "the agent that stayed")
        chain.check()

    def test_metadata_update_of_a_snapshot_that_changed(self):
        chain = self.chain(OURS, OURS, V9)
        agent = chain.agent
        epoch = agent.ack["epoch"]
        agent.link.send(AGENT_METADATA_UPDATE, payload=go_json({
            "agent_id": chain.agent_id, "instance_id": "agent-" + "0123456789abcdef" * 2,
            "connection_id": f"slot-{epoch}", "node_id": chain.agent_id, "epoch": epoch, "revision": 2,
            "reported_at": "2026-09-24T07:09:09.5+08:00",
            "items": [{"name": "os.name", "source": "file", "value": "<debian> & more"}],
            "errors": [{"name": "gone", "code": "collection_error", "message": "no such file"}],
            "capabilities": ["stream_open_result.v1"]}))
        agent.link.wait(lambda: agent.ack["revision"] == 2, "the acknowledgement")
        self.assertTrue(agent.ack["accepted"], agent.ack)
        chain.check()

    def test_refusal_without_the_members_that_are_zero(self):
        """A deployed agent leaves retryable and retry_after_ms out; the client still gets all five."""
        chain = self.chain(V9, OURS, V9)
        flow = chain.client.open("127.0.0.1", closed_port())
        chain.client.link.wait(lambda: flow.stream.answer, "an answer")
        self.assertEqual(flow.stream.answer, {"accepted": False, "stage": "connect", "code": "connection_refused",
                                              "retryable": False, "retry_after_ms": 0})
        chain.check()

    def test_early_data_of_a_client_that_may_is_held_for_an_agent_that_may_not(self):
        """WIRE E: extensions that client and server named stay between them."""
        chain = self.chain(OURS, OURS, V9)
        client = FleetClient(V11, chain.port, chain.client_token, chain.agent_id,
                             capabilities=["stream_open_result.v1", "stream_flow_control.v1", "stream_early_data.v1"])
        self.addCleanup(client.close)
        client.link.wait(lambda: client.acks, "an acknowledgement")
        self.assertIn("stream_early_data.v1", json.loads(client.acks[0])["capabilities"])
        for size in (1, 16384):
            data = os.urandom(size)
            flow = client.open("127.0.0.1", chain.echo_target.port)
            flow.sendall(data)  # behind the open, before any answer
            self.assertEqual(flow.receive_exactly(size), data)
            flow.close()
        self.assertEqual(client.link.faults, [])
        chain.check()

    def test_agent_gone_in_the_middle_of_streams(self):
        chain = self.chain(OURS, OURS, V9)
        flow = chain.connect(chain.echo_target.port)
        flow.sendall(b"x")
        self.assertEqual(flow.receive_exactly(1), b"x")
        chain.agent.close()
        with self.assertRaises(OSError):
            flow.receive_exactly(1)
        flow.close()
        with self.assertRaises(SocksRefused) as refused:
            chain.connect(chain.echo_target.port)
        self.assertEqual(refused.exception.reply, 4)
        chain.agent = self.new_agent(chain, V11)
        chain.scripted = [chain.agent.link]
        wait_until(chain.echoes, "the agent that came again")
        chain.check()


if __name__ == "__main__":
    unittest.main()
