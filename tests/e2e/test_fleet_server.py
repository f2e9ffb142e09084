"""Our client and agent at deployed servers: what is particular about each version."""

import json
import os
import socket
import threading
import time
import unittest

from fleet_chain import OURS, Chain
from fleet_versions import V8, V9, V10, V11, WINDOW
from harness import Target, wait_until
from wire import (CLIENT_HELLO, DATA, HALF_CLOSE, OFFERS, OPEN_RESULT, OPEN_STREAM, RESET, STRICT, WINDOW_UPDATE,
                  open_payload)

MIB = 1 << 20
EXTENSIONS = {"stream_early_data.v1", "stream_window_growth.v1"}


class ServerCase(unittest.TestCase):
    def chain(self, *ends, **options):
        chain = Chain(*ends, **options)
        self.addCleanup(chain.close)
        return chain

    def target(self, handle):
        target = Target(handle)
        self.addCleanup(target.close)
        return target

    def cut(self, chain, which="client"):
        """The server's side of a link goes without a word."""
        link = getattr(chain.server, which)
        with chain.server.lock:
            setattr(chain.server, which, None)
        link.close()


class V8Server(ServerCase):
    def client_requests(self, chain):
        with chain.server.lock:
            return [offers for path, offers in chain.server.requests if path == "/ws/client"]

    def offer_is_repeated_without(self, status):
        chain = self.chain(OURS, V8, OURS, server_options={"refuse_status": status})
        self.assertEqual(self.client_requests(chain), [OFFERS, ()])
        self.assertIsNone(chain.server.client.protocol)
        # That link alone is legacy: the next connection offers everything again.
        self.cut(chain)
        chain.server.wait_ready(agent=False)
        self.assertEqual(self.client_requests(chain), [OFFERS, (), OFFERS, ()])
        chain.check()

    def test_403_to_an_offer_is_asked_again_without(self):
        self.offer_is_repeated_without(403)

    def test_400_to_an_offer_is_asked_again_without(self):
        self.offer_is_repeated_without(400)

    def test_503_is_no_reason_to_downgrade(self):
        chain = self.chain(OURS, V8, V8, server_options={"refuse_status": 503}, echo=False, ready=False)
        chain.server.wait(lambda: len(self.client_requests(chain)) >= 3, "three attempts")
        self.assertEqual(set(self.client_requests(chain)), {OFFERS})

    def test_an_agent_there_is_legacy_and_without_windows(self):
        chain = self.chain(V8, V8, OURS)
        chain.echo()
        self.assertEqual(chain.server.agent.count(OPEN_RESULT), 0)
        self.assertEqual(chain.server.agent.count(WINDOW_UPDATE), 0)
        chain.check()


class StrictServerOldAgent(ServerCase):
    """Our client opens once more, on a new id, whoever the server is."""

    def test_retry_without_strict(self):
        for version in (V9, V10, V11):
            with self.subTest(server=str(version)):
                chain = self.chain(OURS, version, V8)
                link = chain.server.client
                before = len([f for f in link.frames if f[0] == OPEN_STREAM])
                chain.echo()
                opens = [f for f in link.frames if f[0] == OPEN_STREAM][before:]
                self.assertEqual([f[1] for f in opens], [STRICT, 0])
                self.assertEqual(opens[1][2], opens[0][2] + 1)
                self.assertEqual(json.loads(opens[0][4]), json.loads(opens[1][4]))
                chain.check()


class V9Server(ServerCase):
    def test_offer_and_choice(self):
        for version, choice in ((V9, OFFERS[1]), (V10, OFFERS[1]), (V11, OFFERS[0])):
            chain = self.chain(OURS, version, version)
            self.assertEqual(dict(chain.server.requests)["/ws/client"], OFFERS)
            self.assertEqual(chain.server.client.protocol, choice)
            self.assertEqual(chain.server.client.count(CLIENT_HELLO), 1 if version is V11 else 0)
            chain.check()

    def test_hello_of_our_agent(self):
        chain = self.chain(V9, V9, OURS)
        hello = chain.server.hellos[0]
        self.assertTrue({"stream_open_result.v1", "tcp", "udp", "http"} <= set(hello["capabilities"]))
        self.assertEqual(hello["epoch"], 1)
        first = hello["connection_id"]
        self.cut(chain, "agent")
        chain.server.wait_ready(client=False)
        again = chain.server.hellos[-1]
        self.assertNotEqual(again["connection_id"], first, "LESSONS Z15: a fresh one for every link")
        self.assertEqual(again["instance_id"], hello["instance_id"])
        chain.check()

    def test_goaway_open_limit_reached(self):
        """The server says so and closes; running streams end with an error, new ones have a new link."""
        chain = self.chain(OURS, V9, OURS)
        running = chain.connect(chain.echo_target.port)
        self.addCleanup(running.close)
        old = chain.server.client
        with chain.server.lock:
            chain.server.client = None
            chain.server.goaway(old)
        chain.server.wait_ready(agent=False)  # at once, while the old link is still there
        running.sendall(b"still")
        self.assertEqual(running.receive_exactly(5), b"still")
        old.close()
        with self.assertRaises(OSError):
            running.receive_exactly(1)
        chain.check()

    def test_agent_at_goaway_keeps_its_streams_and_comes_again(self):
        chain = self.chain(OURS, V9, OURS)
        running = chain.connect(chain.echo_target.port)
        self.addCleanup(running.close)
        old = chain.server.agent
        with chain.server.lock:
            chain.server.agent = None
            chain.server.goaway(old, b"")
        chain.server.wait_ready(client=False)
        running.sendall(b"still")
        self.assertEqual(running.receive_exactly(5), b"still")
        chain.check()

    def test_strict_open_before_the_ack(self):
        """LESSONS Z4: what the agent announced holds from the start."""
        chain = self.chain(V9, V9, OURS, server_options={"acks": False}, echo=False)
        payload = open_payload("127.0.0.1", chain.echo_target.port, chain.agent_id)
        stream = chain.server.open_at_agent(payload, True, WINDOW)
        stream.link.wait(lambda: stream.answer, "an answer before any acknowledgement")
        self.assertTrue(stream.answer["accepted"])
        stream.link.reset(stream)
        chain.server.acks = True
        chain.server.send_ack()
        chain.check()

    def stream_at_agent(self, chain, port):
        flow = chain.connect(port)
        with chain.server.lock:
            return flow, list(chain.server.agent.streams.values())[-1]

    def test_credit_that_is_given_twice(self):
        """LESSONS R1, the other way round: our agent takes the surplus without a reset."""
        chain = self.chain(V10, V9, OURS)
        data = os.urandom(768 * 1024)  # its 16 frames and one window hold this, whoever is late
        flow, stream = self.stream_at_agent(chain, self.target(lambda s: s.sendall(data)).port)
        self.assertEqual(flow.read_to_end(), data)
        self.assertGreater(stream.granted_out, len(data), "the script does give it twice")
        flow.close()
        chain.check()

    def test_a_reader_too_slow_for_credit_given_twice_gets_an_error_and_no_short_answer(self):
        """LESSONS R1, R5: the 16 frames of a V9 server overflow sooner or later; it resets the stream."""
        chain = self.chain(OURS, V9, OURS)
        data = os.urandom(16 * MIB)
        flow = chain.connect(self.target(lambda s: s.sendall(data)).port)
        got = 0
        try:
            while piece := flow.recv(65536):
                got += len(piece)
            self.assertEqual(got, len(data), "an end, but not the end of the answer")
        except ConnectionResetError:
            self.assertLess(got, len(data))
        flow.close()
        with chain.server.lock:  # its own limit, and no fault of our programs
            for link in chain.server.links:
                link.faults = [f for f in link.faults if "DATA frames wait" not in f]
        chain.check()

    def test_echoed_capabilities_are_no_negotiation(self):
        """The server echoes what the agent announced: that is no sign that it knows an extension, so
        credit saturates, and no window grows."""
        for version in (V9, V10, V11):
            chain = self.chain(V10, version, OURS)
            self.assertEqual(chain.server.ack["capabilities"], chain.server.hellos[0]["capabilities"])
            flow, stream = self.stream_at_agent(chain, chain.echo_target.port)
            for _ in range(4):
                chain.server.agent.send(WINDOW_UPDATE, stream.id, window=0x7FFFFFFF)
            flow.sendall(b"credit of 8 GiB")
            self.assertEqual(flow.receive_exactly(15), b"credit of 8 GiB")
            flow.close()
            chain.check()

    def test_no_window_grows_at_a_deployed_server(self):
        """The path looks long enough for growth; credit stays what was taken, to the byte."""
        for ends in ((V10, V10, OURS), (OURS, V11, V11)):
            chain = self.chain(*ends, server_options={"pong_delay_s": 0.02})
            data = bytes(6 * MIB)
            taken = []

            def handle(s, data=data, taken=taken):
                while sum(taken) < len(data):
                    taken.append(len(s.recv(1 << 20)))
                s.sendall(data)

            flow = chain.connect(self.target(handle).port)
            sender = threading.Thread(target=flow.sendall, args=(data,))
            sender.start()
            self.assertEqual(len(flow.receive_exactly(len(data))), len(data))
            sender.join()
            flow.close()
            chain.check()

    def test_stalled_reader_gets_everything(self):
        """LESSONS Z3: while nobody reads, what credit allows is at most 16 frames."""
        for version in (V10, V11):
            chain = self.chain(V10, version, OURS)
            data = os.urandom(4 * MIB)
            flow, stream = self.stream_at_agent(chain, self.target(lambda s, d=data: s.sendall(d)).port)
            got = b""
            for _ in range(4):
                chain.client.link.wait(lambda: flow.stream.credit_in == 0 or flow.stream.over, "a full window")
                chain.client.ping()
                got += flow.receive_exactly(MIB // 2)
            got += flow.read_to_end()
            self.assertEqual(got, data)
            self.assertLessEqual(stream.received, len(data))
            flow.close()
            chain.check()

    def test_small_writes_are_gathered(self):
        """LESSONS Z3: a target that writes byte by byte must not use up the 16 frames; at most 5 ms."""
        pieces = 300
        took = []

        def handle(s):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.recv(1)
            began = time.monotonic()
            for _ in range(pieces):
                s.sendall(b"x")
                time.sleep(0.0003)
            took.append(time.monotonic() - began)

        chain = self.chain(V10, V9, OURS)
        flow, stream = self.stream_at_agent(chain, self.target(handle).port)
        flow.sendall(b"g")
        self.assertEqual(flow.receive_exactly(pieces), b"x" * pieces)
        wait_until(lambda: took, "the target's end")
        link = chain.server.agent
        with chain.server.lock:
            frames = sum(f[0] == DATA and f[2] == stream.id for f in link.frames)
        self.assertLess(frames, took[0] / 0.005 * 2 + 3, f"{frames} frames in {took[0]:.3f} s")
        flow.close()
        chain.check()

    def test_a_single_small_answer_is_not_kept_back(self):
        chain = self.chain(V10, V9, OURS)
        flow = chain.connect(chain.echo_target.port)
        for _ in range(20):  # a shell: nothing waits for an acknowledgement
            flow.sendall(b"k")
            self.assertEqual(flow.receive_exactly(1), b"k")
        flow.close()
        chain.check()

    def test_a_reset_is_not_answered_by_our_client(self):
        chain = self.chain(OURS, V9, OURS)
        flow = chain.connect(chain.echo_target.port)
        with chain.server.lock:
            link = chain.server.client
            stream = list(link.streams.values())[-1]
            link.reset(stream, b"stream rejected")
        with self.assertRaises(OSError):
            flow.receive_exactly(1)
        chain.echo()
        self.assertFalse(stream.reset_in)
        flow.close()
        chain.check()

    def test_resets_that_answer_resets_are_not_answered(self):
        """A deployed server answers even a RESET for a stream it dropped (WIRE 1.11): no storm."""
        chain = self.chain(OURS, V9, OURS)
        flows = [chain.connect(chain.echo_target.port) for _ in range(8)]
        link = chain.server.client
        with chain.server.lock:
            streams = list(link.streams.values())[-8:]
        for flow, stream in zip(flows, streams):
            flow.sendall(b"x" * 1000)
            flow.abort()
            link.wait(lambda s=stream: s.reset_in, "its RESET")
            for _ in range(3):
                link.send(RESET, stream.id, b"stream rejected")
        chain.echo()
        counts = [sum(f[0] == RESET and f[2] == s.id for f in link.frames) for s in streams]
        self.assertLessEqual(max(counts), 1)
        chain.check()

    def test_frames_for_streams_that_never_were_are_ignored(self):
        chain = self.chain(OURS, V9, OURS)
        for link in (chain.server.client, chain.server.agent):
            for kind, payload, window in ((RESET, b"", 0), (WINDOW_UPDATE, b"", 7), (HALF_CLOSE, b"", 0),
                                          (OPEN_RESULT, b'{"accepted":true,"stage":"connect","code":"ok"}', 0)):
                link.send(kind, 4000, payload, window=window)
        chain.server.client.send(DATA, 4000, b"x")
        chain.check()

    def test_unknown_protocols_end_that_stream_only(self):
        """LESSONS Z10: a deployed agent would end its session; V16 servers may ask for icmp-echo."""
        chain = self.chain(V9, V9, OURS)
        for protocol in ("icmp-echo", "ws", ""):
            for strict in (True, False):
                payload = open_payload("127.0.0.1", 9, chain.agent_id, protocol)
                stream = chain.server.open_at_agent(payload, strict, WINDOW)
                stream.link.wait(lambda s=stream: s.reset_in, f"a refusal of {protocol}")
        chain.check()


class V11Server(ServerCase):
    def test_client_hello_as_a_deployed_server_reads_it(self):
        chain = self.chain(OURS, V11, V11)
        hello = chain.server.hellos[-1] if "agent_ids" in chain.server.hellos[-1] else chain.server.hellos[0]
        self.assertEqual(hello["agent_ids"], [chain.agent_id])
        self.assertRegex(hello["instance_id"], r"^client-[0-9a-f]{32}$")
        self.assertEqual(hello["connection_slot"], 1)
        self.assertGreater(hello["revision"], 0)
        chain.check()

    def test_extensions_are_not_used_without_a_capability_in_the_ack(self):
        chain = self.chain(OURS, V11, V11)
        data = os.urandom(2 * MIB)
        flow = chain.connect(chain.echo_target.port)
        sender = threading.Thread(target=flow.sendall, args=(data,))
        sender.start()
        self.assertEqual(flow.receive_exactly(len(data)), data)
        sender.join()
        flow.close()
        chain.check()


if __name__ == "__main__":
    unittest.main()
