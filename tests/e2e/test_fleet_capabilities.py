"""Requirement I2: each capability can be switched off by configuration; new links follow, streams that
run drain. What was negotiated is read off the wire, at scripted peers."""

import json
import signal
import threading
import unittest

from fleet_chain import OURS, Chain
from fleet_versions import V8, V9, V11, WINDOW, go_json
from harness import Target, can_connect, wait_until
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, CLIENT_HELLO, CLIENT_METADATA_ACK, OFFERS, OPEN_RESULT, OPEN_STREAM,
                  STRICT, Peer)

SWITCHES = {"open_result": "stream_open_result.v1", "flow_control": "stream_flow_control.v1",
            "fair_writer": "stream_fair_writer.v1", "early_data": "stream_early_data.v1",
            "window_growth": "stream_window_growth.v1"}
# Early data means nothing without open results, growth nothing without windows.
GOES_WITH = {"open_result": {"open_result", "early_data"}, "flow_control": {"flow_control", "window_growth"}}
PROTOCOLS = {"tcp", "udp", "http"}


def left(switch):
    """What is announced when one switch is off."""
    return {SWITCHES[s] for s in SWITCHES if s not in GOES_WITH.get(switch, {switch})}


def off(role, switch):
    """An edit of a mesh that turns one switch of one role off."""
    lines = f"{role}:\n  capabilities:\n    {switch}: false\n"

    def change(mesh):
        mesh.rewrite(role, lambda text: text.replace(f"{role}:\n", lines, 1))
    return change


class Case(unittest.TestCase):
    def chain(self, *ends, **options):
        chain = Chain(*ends, **options)
        self.addCleanup(chain.close)
        return chain

    def opens(self, link):
        with link.lock:
            return [(f[1], f[3]) for f in link.frames if f[0] == OPEN_STREAM]

    def halves(self):
        """A target that answers in two halves, the second when told."""
        go = threading.Event()
        self.addCleanup(go.set)

        def handle(s):
            s.sendall(b"first half ")
            go.wait(30)
            s.sendall(b"second half")

        target = Target(handle)
        self.addCleanup(target.close)
        return target, go


class ClientSwitches(Case):
    def test_offers_and_opens(self):
        for switch, offers, opened in (
                (None, OFFERS, (STRICT, WINDOW)), ("open_result", OFFERS[3:], (0, 0)),
                ("flow_control", OFFERS[2:], (STRICT, 0)), ("fair_writer", OFFERS, (STRICT, WINDOW)),
                ("early_data", OFFERS, (STRICT, WINDOW)), ("window_growth", OFFERS, (STRICT, WINDOW))):
            with self.subTest(off=switch):
                chain = self.chain(OURS, V11, V11, edit=off("client", switch) if switch else None)
                self.assertEqual(dict(chain.server.requests)["/ws/client"], offers)
                self.assertEqual(chain.server.client.protocol, offers[0])
                self.assertEqual(set(self.opens(chain.server.client)), {opened})
                self.assertEqual(chain.server.client.count(CLIENT_HELLO), int(offers == OFFERS))
                if offers == OFFERS:
                    hello = next(h for h in chain.server.hellos if "agent_ids" in h)
                    self.assertEqual(set(hello["capabilities"]), left(switch))
                chain.check()

    def test_streams_that_run_drain_while_a_new_process_follows(self):
        chain = self.chain(OURS, V11, V11)
        target, go = self.halves()
        flow = chain.connect(target.port)
        self.assertEqual(flow.receive_exactly(11), b"first half ")
        old = chain.mesh.programs["client"]
        old.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not can_connect(chain.mesh.socks_port), "the entry to close")
        off("client", "open_result")(chain.mesh)
        with chain.server.lock:
            chain.server.client = None
        chain.mesh.start("client")
        chain.server.wait_ready(agent=False)
        wait_until(chain.echoes, "the new process")
        self.assertEqual(chain.server.client.protocol, OFFERS[3])
        self.assertEqual(set(self.opens(chain.server.client)), {(0, 0)})
        go.set()
        self.assertEqual(flow.read_to_end(), b"second half")
        flow.close()
        self.assertEqual(old.process.wait(30), 0)
        old.log.close()
        chain.check()


class AgentSwitches(Case):
    def test_hello_and_answers(self):
        for switch in (None, *SWITCHES):
            with self.subTest(off=switch):
                chain = self.chain(V11, V11, OURS, edit=off("agent", switch) if switch else None, echo=False)
                named = {c for c in chain.server.hellos[0]["capabilities"] if c in SWITCHES.values()}
                self.assertEqual(named, left(switch))
                self.assertTrue(PROTOCOLS <= set(chain.server.hellos[0]["capabilities"]))
                if switch == "open_result":
                    # The scripted server refuses strict opens then, as deployed ones do.
                    with self.assertRaises(Exception):
                        chain.connect(chain.echo_target.port)
                    self.assertEqual(chain.server.agent.count(OPEN_RESULT), 0)
                else:
                    # With a window it keeps windows, whatever it announced (requirement E3).
                    chain.echo(b"w" * 2 * WINDOW if switch == "flow_control" else b"echo")
                    self.assertEqual(chain.server.agent.count(OPEN_RESULT), 1)
                self.assertEqual(chain.faults(), [])

    def test_streams_that_run_drain_while_a_new_process_follows(self):
        chain = self.chain(V9, OURS, OURS)
        target, go = self.halves()
        flow = chain.connect(target.port)
        self.assertEqual(flow.receive_exactly(11), b"first half ")
        old = chain.mesh.programs["agent"]
        old.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in old.text(), "the signal to arrive")
        off("agent", "open_result")(chain.mesh)
        chain.mesh.start("agent")
        new = chain.mesh.programs["agent"]
        wait_until(lambda: "registered" in new.text(), "the new process")

        def is_refused():
            flow = chain.client.open("127.0.0.1", chain.echo_target.port)
            chain.client.link.wait(lambda: flow.stream.answer, "an answer")
            if flow.stream.answer["accepted"]:
                flow.close()
            return flow.stream.answer["code"] == "unsupported_capability"

        wait_until(is_refused, "strict opens to be refused")
        go.set()
        self.assertEqual(flow.read_to_end(), b"second half")
        flow.close()
        self.assertEqual(old.process.wait(30), 0)
        old.log.close()
        self.assertEqual(chain.faults(), [])


class ServerSwitches(Case):
    def ack_of_agent(self, chain):
        """What an agent that announces everything gets back."""
        with Peer(chain.port, "/ws/agent", chain.agent_token) as peer:
            peer.send(AGENT_HELLO, payload=go_json({
                "agent_id": chain.agent_id, "instance_id": "agent-" + "0" * 32, "connection_id": "all", "node_id": "n",
                "epoch": 1, "revision": 1, "reported_at": "2026-09-24T07:08:09Z", "items": [],
                "capabilities": [*SWITCHES.values(), *PROTOCOLS, "stream_of_the_future.v9"]}))
            return set(json.loads(peer.expect(AGENT_METADATA_ACK)[4])["capabilities"])

    def ack_of_client(self, chain):
        with Peer(chain.port, "/ws/client", chain.client_token, OFFERS) as peer:
            if peer.protocol != OFFERS[0]:
                return None
            peer.send(CLIENT_HELLO, payload=go_json({
                "instance_id": "client-" + "0" * 32, "process_start_at": "0001-01-01T00:00:00Z",
                "reported_at": "2026-09-24T07:08:09Z", "revision": 1, "listeners": [],
                "capabilities": [*SWITCHES.values(), "stream_of_the_future.v9"]}))
            return set(json.loads(peer.expect(CLIENT_METADATA_ACK)[4])["capabilities"])

    def test_choice_acknowledgement_and_opens(self):
        for switch, chosen, opened in (
                (None, OFFERS[0], (STRICT, True)), ("open_result", OFFERS[3], (0, False)),
                ("flow_control", OFFERS[2], (STRICT, False)), ("fair_writer", OFFERS[0], (STRICT, True)),
                ("early_data", OFFERS[0], (STRICT, True)), ("window_growth", OFFERS[0], (STRICT, True))):
            with self.subTest(off=switch):
                chain = self.chain(V11, OURS, V9, edit=off("server", switch) if switch else None,
                                   agent_options={"expect_windows": opened[1]})
                self.assertEqual(chain.client.protocol, chosen)
                opens = self.opens(chain.agent.link)
                self.assertEqual({(flags, window > 0) for flags, window in opens}, {opened})
                # No protocol names: an acknowledgement that holds them is an echo, and no sign of our server.
                self.assertEqual(self.ack_of_agent(chain), left(switch))
                self.assertEqual(self.ack_of_client(chain), left(switch) if chosen == OFFERS[0] else None)
                chain.check()

    def test_streams_that_run_drain_and_new_links_follow(self):
        chain = self.chain(OURS, OURS, V9)
        target, go = self.halves()
        flow = chain.connect(target.port)
        self.assertEqual(flow.receive_exactly(11), b"first half ")
        self.assertEqual({f for f, _ in self.opens(chain.agent.link)}, {STRICT})
        server = chain.mesh.programs["server"]
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not can_connect(chain.port), "the listener to close")
        go.set()
        self.assertEqual(flow.read_to_end(), b"second half")
        flow.close()
        chain.agent.link.closing = True
        self.assertEqual(server.process.wait(30), 0)
        server.log.close()
        off("server", "open_result")(chain.mesh)
        chain.start_server()
        chain.scripted.clear()
        chain.agent_options["expect_windows"] = False
        chain.start_agent()
        wait_until(chain.echoes, "the first stream through the new server")
        self.assertEqual(set(self.opens(chain.agent.link)), {(0, 0)})
        chain.check()

    def test_old_peers_do_not_notice(self):
        for switch in SWITCHES:
            with self.subTest(off=switch):
                chain = self.chain(V8, OURS, V8, edit=off("server", switch))
                chain.check()


if __name__ == "__main__":
    unittest.main()
