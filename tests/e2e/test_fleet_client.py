"""Deployed clients in front of our server: what is particular about each version."""

import json
import os
import socket
import threading
import time
import unittest

from fleet_agent import FleetAgent
from fleet_chain import OURS, Chain
from fleet_client import FleetClient, Refused
from fleet_versions import V8, V9, V10, V11, WINDOW
from harness import HungTarget, Target, UdpEcho, wait_until
from wire import OFFERS, OPEN_STREAM, RESET, open_payload


def flood(s):
    try:
        while True:
            s.sendall(b"f" * 65536)
    except OSError:
        pass


class ClientCase(unittest.TestCase):
    ends = ()

    @classmethod
    def setUpClass(cls):
        cls.chain = Chain(*cls.ends)

    @classmethod
    def tearDownClass(cls):
        cls.chain.close()

    def tearDown(self):
        self.chain.check()

    def target(self, handle):
        target = Target(handle)
        self.addCleanup(target.close)
        return target

    def refused(self, flow):
        with self.assertRaises(Refused) as refused:
            self.chain.client.result(flow.stream)
        return refused.exception.result


class V8Client(ClientCase):
    ends = V8, OURS, OURS

    def test_nothing_is_selected_for_a_client_that_offers_nothing(self):
        self.assertIsNone(self.chain.client.protocol)

    def test_bytes_sent_right_behind_the_open_wait_for_the_dial(self):
        client, echo = self.chain.client, self.chain.echo_target
        flow = client.open("127.0.0.1", echo.port)
        flow.sendall(b"early" * 1000)
        self.assertEqual(flow.receive_exactly(5000), b"early" * 1000)
        flow.close()

    def test_forbidden_target_is_a_reset(self):
        link = self.chain.client.link
        stream = link.open(open_payload("127.0.0.1", 80, "agent-of-nobody"), False, 0)
        link.wait(lambda: stream.reset_in, "a RESET")


class V9Client(ClientCase):
    ends = V9, OURS, OURS

    def test_the_best_of_three_is_selected(self):
        self.assertEqual(self.chain.client.protocol, OFFERS[1])

    def test_credit_comes_back_promptly(self):
        """LESSONS Z5: a V9 client fails a write beyond its credit; what was taken must be credited soon."""
        flow = self.chain.connect(self.chain.echo_target.port)
        for _ in range(8):
            data = os.urandom(200_000)
            flow.sendall(data)  # WindowExhausted if not
            self.assertEqual(flow.receive_exactly(len(data)), data)
        flow.close()

    def test_udp_with_a_window_harms_nobody(self):
        """LESSONS Z1: legacy, with a window, and never any credit for it."""
        echo = UdpEcho()
        self.addCleanup(echo.close)
        client = self.chain.client
        flow = client.open("127.0.0.1", echo.port, protocol="udp")
        self.assertFalse(flow.stream.strict)
        link, stream = client.link, flow.stream
        for n in range(20):  # three windows each way
            data = bytes([n]) * (40_000 - n)
            self.assertTrue(link.data(stream, data))
            link.wait(lambda: stream.inbox, "the datagram that was sent")
            self.assertEqual(stream.inbox.popleft(), data)
        self.assertTrue(link.data(stream, b""))
        link.wait(lambda: stream.inbox, "an empty datagram")
        self.assertEqual(stream.inbox.popleft(), b"")
        flow.close()
        link.wait(lambda: stream.over or stream.ended_in, "the end of the association")

    def test_ids_slightly_out_of_order(self):
        client = self.chain.client
        with client.link.lock:
            first = client.link.next_out
            flows = {}
            for stream_id in (first + 2, first, first + 1):
                client.link.next_out = stream_id
                flows[stream_id] = client.open("127.0.0.1", self.chain.echo_target.port)
            client.link.next_out = first + 3
        for stream_id, flow in flows.items():
            client.result(flow.stream)
            flow.sendall(b"%d" % stream_id)
            self.assertEqual(flow.receive_exactly(len(str(stream_id))), b"%d" % stream_id)
            flow.close()

    def test_reset_while_opening_is_a_silent_cancel(self):
        client = self.chain.client
        flows = [client.open("127.0.0.1", self.chain.echo_target.port) for _ in range(10)]
        for flow in flows:
            flow.abort()
        self.chain.echo()
        late = [f[0] for f in client.link.frames if f[2] in {flow.stream.id for flow in flows}]
        self.assertNotIn(RESET, late)

    def test_a_reset_is_not_answered(self):
        flow = self.chain.connect(self.chain.echo_target.port)
        flow.abort()
        self.chain.echo()  # behind whatever the server made of it
        self.assertFalse(flow.stream.reset_in)

    def test_answers_have_only_known_values(self):
        client = self.chain.client
        link = client.link
        flow = client.open("127.0.0.1", 1)
        self.assertEqual(self.refused(flow)["code"], "connection_refused")
        stranger = link.open(open_payload("127.0.0.1", 80, "agent-of-nobody"), True, WINDOW)
        link.wait(lambda: stranger.answer, "an answer")
        self.assertIn(stranger.answer["code"], ("forbidden", "agent_offline"))

    def test_no_message_is_lost_when_only_one_sub_protocol_is_offered(self):
        for offer in OFFERS[1:]:
            client = FleetClient(V9, self.chain.port, self.chain.client_token, self.chain.agent_id, offers=(offer,))
            self.addCleanup(client.close)
            self.assertEqual(client.protocol, offer)
            flow = client.connect("127.0.0.1", self.chain.echo_target.port)
            flow.sendall(b"one offer")
            self.assertEqual(flow.receive_exactly(9), b"one offer")
            flow.close()
            self.assertEqual(client.link.faults, [])


class V10Client(ClientCase):
    ends = V10, OURS, OURS

    def test_ping_of_eight_bytes_is_echoed(self):
        for _ in range(3):
            self.chain.client.ping()
        self.assertEqual(len(set(self.chain.client.pongs)), len(self.chain.client.pongs))

    def test_close_sends_half_close_and_forgets_the_stream(self):
        """The target floods a stream whose client is gone: nobody else notices."""
        ended = threading.Event()

        def handle(s):
            try:
                flood(s)
            finally:
                ended.set()

        target = self.target(handle)
        flow = self.chain.connect(target.port)
        flow.receive_exactly(1000)
        flow.close()
        self.chain.client.link.wait(lambda: flow.stream.credit_in < 32768, "the window to be used up")
        self.chain.echo()
        self.chain.client.ping()
        self.assertLessEqual(flow.stream.received, WINDOW + flow.stream.granted_out)
        flow.abort()  # what its process does in the end: the books of this test, too

    def test_close_on_both_sides_frees_the_stream(self):
        def handle(s):
            while s.recv(65536):
                pass

        flow = self.chain.connect(self.target(handle).port)
        flow.close()
        self.chain.client.link.wait(lambda: flow.stream.ended_in, "the target's end")

    def test_opens_under_way_delay_no_ping_and_no_other_stream(self):
        hung = HungTarget()
        self.addCleanup(hung.close)
        client = self.chain.client
        opens = [client.open("127.0.0.1", hung.port) for _ in range(2)]
        client.ping()
        self.chain.echo()
        self.assertEqual([f.stream.answer for f in opens], [None, None], "they wait still")
        for flow in opens:
            flow.abort()

    def test_a_stalled_stream_delays_no_ping(self):
        flow = self.chain.connect(self.target(flood).port)
        self.chain.client.link.wait(lambda: flow.stream.credit_in == 0, "a full window")
        began = time.monotonic()
        self.chain.client.ping()
        self.assertLess(time.monotonic() - began, 10)
        flow.abort()


class V10ClientV9Agent(ClientCase):
    ends = V10, OURS, V9

    def test_credit_only_for_what_went_on(self):
        """LESSONS R2: the target does not read, so the agent takes one window, and the client gets
        credit for no more than that."""
        release = threading.Event()
        target = self.target(lambda s: release.wait(30))
        target.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        flow = self.chain.connect(target.port)
        at_agent = list(self.chain.agent.link.streams.values())[-1]
        sender = threading.Thread(target=self.send_until_reset, args=(flow,))
        sender.start()
        self.chain.agent.link.wait(lambda: at_agent.credit_in == 0, "the agent's window to be used up")
        for _ in range(3):  # whatever else the server would grant
            self.chain.client.ping()
            self.chain.agent.ping()
        # The agent's thread may be behind the client's: what was too much would stay so.
        wait_until(lambda: flow.stream.granted_in <= at_agent.received and
                   flow.stream.sent <= at_agent.received + WINDOW, "no more credit than the agent took", 10)
        flow.abort()
        sender.join()
        release.set()

    def send_until_reset(self, flow):
        try:
            while True:
                flow.sendall(b"x" * 32768)
        except ConnectionResetError:
            pass


class V11Client(ClientCase):
    ends = V11, OURS, OURS

    def test_metadata_is_selected_and_the_hello_acknowledged(self):
        client = self.chain.client
        self.assertEqual(client.protocol, OFFERS[0])
        client.link.wait(lambda: client.acks, "an acknowledgement")
        ack = json.loads(client.acks[0])
        self.assertTrue(ack["accepted"], ack)
        self.assertEqual(ack["revision"], 1)
        self.assertEqual(ack["instance_id"], "client-" + "0123456789abcdef" * 2)
        for member in ("client_instance_id", "connection_id"):
            self.assertIsInstance(ack[member], str)
        self.assertFalse(ack.get("errors"))
        self.assertFalse(ack.get("capabilities"), "it named none")

    def test_updates_are_acknowledged(self):
        client = self.chain.client
        client.link.wait(lambda: client.acks, "the first acknowledgement")
        for _ in range(3):
            before = len(client.acks)
            client.send_metadata()
            client.link.wait(lambda: len(client.acks) > before, "an acknowledgement")
            ack = json.loads(client.acks[-1])
            self.assertEqual((ack["accepted"], ack["revision"]), (True, client.revision))

    def test_pings_too(self):
        self.chain.client.ping()


class StrictClientsOldAgent(unittest.TestCase):
    """B4: deployed strict clients do not retry; they get the answer, and the agent hears nothing."""

    def test_unsupported_capability(self):
        chain = Chain(V9, OURS, V8, echo=False)
        self.addCleanup(chain.close)
        clients = [chain.client] + [FleetClient(v, chain.port, chain.client_token, chain.agent_id) for v in (V10, V11)]
        for client in clients[1:]:
            self.addCleanup(client.close)
        for client in clients:
            with self.subTest(client=str(client.version)):
                with self.assertRaises(Refused) as refused:
                    client.connect("127.0.0.1", chain.echo_target.port)
                result = refused.exception.result
                self.assertEqual((result["stage"], result["code"], result["retryable"]),
                                 ("relay", "unsupported_capability", True))
        legacy = FleetClient(V8, chain.port, chain.client_token, chain.agent_id)
        self.addCleanup(legacy.close)
        flow = legacy.connect("127.0.0.1", chain.echo_target.port)
        flow.sendall(b"legacy")
        self.assertEqual(flow.receive_exactly(6), b"legacy")
        self.assertEqual(chain.agent.link.count(OPEN_STREAM), 1, "only the legacy open reached the agent")
        self.assertEqual([f for c in (*clients, legacy) for f in c.link.faults], [])
        chain.check(echo=False)

    def test_two_agents_of_one_name_and_only_one_can_answer(self):
        """A strict client never gets the V8 link; a legacy one may."""
        chain = Chain(V9, OURS, V9)
        self.addCleanup(chain.close)
        old = FleetAgent(V8, chain.port, chain.agent_token, chain.agent_id)
        self.addCleanup(old.close)
        for _ in range(6):
            chain.echo()
        self.assertEqual(old.link.count(OPEN_STREAM), 0)
        old.ping()
        self.assertEqual(old.link.faults, [])
        chain.check()


if __name__ == "__main__":
    unittest.main()
