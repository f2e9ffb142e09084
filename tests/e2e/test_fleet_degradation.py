"""What the latency design promises for failures and old peers, row by row (requirement I1), with the
real programs. Rows about the revision poll, auth_url and relays are tested where those are."""

import contextlib
import os
import socket
import sqlite3
import struct
import time
import unittest

from fleet_chain import OURS, Chain
from fleet_client import Refused
from fleet_versions import V8, V9, V10
from harness import HungTarget, free_port, receive_exactly, socks_address, wait_until
from wire import OFFERS, OPEN_RESULT, OPEN_STREAM, RESET, STRICT, WINDOW_UPDATE, Closed, Peer, frame, open_payload

QUEUE_FULL = 1


class Connect:
    """A SOCKS5 CONNECT that is sent at once; reply() is its outcome so far, or None."""

    def __init__(self, port, target_port):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.s.sendall(b"\x05\x01\x00\x05\x01\x00" + socks_address("127.0.0.1") + struct.pack(">H", target_port))
        self.s.setblocking(False)
        self.data = b""

    def reply(self):
        with contextlib.suppress(BlockingIOError):
            self.data += self.s.recv(64)
        return self.data[3] if len(self.data) >= 12 else None

    def abort(self):
        """With an RST: the end of a sender alone does not give an open up."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.s.close()


def settings(role, section, **values):
    """An edit of a mesh that adds a mapping below one of its roles."""
    lines = "".join(f"    {key}: {value}\n" for key, value in values.items())

    def change(mesh):
        mesh.rewrite(role, lambda text: text.replace(f"{role}:\n", f"{role}:\n  {section}:\n{lines}", 1))
    return change


class FailureRows(unittest.TestCase):
    def chain(self, *ends, **options):
        chain = Chain(*ends, **options)
        self.addCleanup(chain.close)
        return chain

    def some_are_refused_while_others_hang(self, chain, refused_count):
        """Opens to a target that hangs: the surplus is told at once, and the link lives."""
        hung = HungTarget()
        self.addCleanup(hung.close)
        with chain.connect(chain.echo_target.port).s as held:
            opens = [Connect(chain.mesh.socks_port, hung.port) for _ in range(6)]
            for one in opens:
                self.addCleanup(one.s.close)
            wait_until(lambda: sum(o.reply() == QUEUE_FULL for o in opens) >= refused_count, "refusals")
            self.assertTrue(any(o.reply() is None for o in opens), "they did not wait for the others")
            held.sendall(b"same link")
            self.assertEqual(receive_exactly(held, 9), b"same link")
            for one in opens:
                one.abort()
        wait_until(chain.echoes, "the places of the opens that were given up")
        chain.check()

    def test_agent_dial_pool_full_fails_that_stream_at_once_and_the_session_stays(self):
        chain = self.chain(edit=settings("agent", "streams", max_concurrent_dials=1, max_pending_dials=1))
        self.some_are_refused_while_others_hang(chain, 1)
        self.assertEqual(chain.mesh.programs["agent"].text().count("link_up"), 1)

    def test_server_open_pool_full_is_queue_full_and_nobody_waits_for_ever(self):
        chain = self.chain(edit=settings("server", "stream", max_concurrent_opens=1, max_pending_opens=2))
        self.some_are_refused_while_others_hang(chain, 3)
        self.assertEqual(chain.mesh.programs["client"].text().count("link_up"), 1)

    def test_unreachable_target_gets_its_stable_code_and_the_others_load_on(self):
        chain = self.chain(V10, OURS, OURS)
        flow = chain.connect(chain.echo_target.port)
        for _ in range(20):
            with self.assertRaises(Refused) as refused:
                chain.connect(free_port())
            self.assertEqual((refused.exception.result["stage"], refused.exception.result["code"]),
                             ("connect", "connection_refused"))
        flow.sendall(b"other resource")
        self.assertEqual(flow.receive_exactly(14), b"other resource")
        flow.close()
        self.assertEqual(chain.mesh.programs["agent"].text().count("link_up"), 1)
        chain.check()

    def test_incomplete_capabilities_fall_back_to_legacy_and_no_stream_changes_in_its_middle(self):
        chain = self.chain(OURS, OURS, V9)
        strict = chain.connect(chain.echo_target.port)
        chain.agent.close()  # and comes back as its old version
        with self.assertRaises(OSError):
            strict.receive_exactly(1)
        strict.close()
        chain.versions = (OURS, OURS, V8)
        chain.scripted.clear()
        chain.start_agent()
        wait_until(chain.echoes, "the legacy agent")
        legacy = chain.connect(chain.echo_target.port)
        stream = list(chain.agent.link.streams.values())[-1]
        self.assertFalse(stream.strict)
        legacy.sendall(b"x")
        self.assertEqual(legacy.receive_exactly(1), b"x")
        self.assertEqual(chain.agent.link.count(OPEN_RESULT), 0)
        self.assertIn("open_mode=legacy", chain.mesh.programs["client"].text())
        legacy.close()
        chain.check()

    def test_window_violation_resets_that_stream_only(self):
        chain = self.chain(V10, OURS, OURS)
        good, bad = (chain.connect(chain.echo_target.port) for _ in range(2))
        chain.client.link.send_message(frame(WINDOW_UPDATE, bad.stream.id, window=0))
        chain.client.link.wait(lambda: bad.stream.reset_in, "a RESET")
        good.sendall(b"good")
        self.assertEqual(good.receive_exactly(4), b"good")
        good.close()
        chain.check()

    def test_mass_window_violations_close_the_session_and_are_audited(self):
        chain = self.chain(edit=settings("server", "limits", window_violations="'8 in 10s'"))
        with Peer(chain.port, "/ws/client", chain.client_token, OFFERS[1:2]) as peer:
            payload = open_payload("127.0.0.1", chain.echo_target.port, chain.agent_id)
            with self.assertRaises((Closed, OSError)):
                for stream in range(1, 20):
                    peer.send(OPEN_STREAM, stream, payload, flags=STRICT, window=262144)
                    peer.expect(OPEN_RESULT, stream)
                    peer.send(WINDOW_UPDATE, stream, window=0)
                    peer.expect(RESET, stream)
            self.assertGreaterEqual(stream, 8)

        def rows():
            with sqlite3.connect(f"file:{self.database(chain)}?mode=ro", uri=True) as db:
                return db.execute("SELECT id FROM audit_logs WHERE action='link.window_violations'").fetchall()

        wait_until(rows, "the row of the audit log")
        chain.check()

    def database(self, chain):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(chain.mesh.config) for name in names
                 if name.endswith(".db")]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_a_peer_that_never_reads_its_answers_loses_its_session_and_nobody_else(self):
        """The control queues are bounded: who makes them grow without reading ends, not the server."""
        chain = self.chain(edit=settings("server", "stream", max_active_per_link=64))
        held = chain.connect(chain.echo_target.port)
        peer = Peer(chain.port, "/ws/client", chain.client_token, OFFERS[1:2])
        self.addCleanup(peer.close)
        peer.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        payload = open_payload("127.0.0.1", 1, "agent-of-nobody")
        began = time.monotonic()
        with self.assertRaises(OSError):
            stream = 1
            while time.monotonic() - began < 60:
                peer.send_together(*[frame(OPEN_STREAM, stream + i, payload, STRICT, 262144) for i in range(200)])
                stream += 200
        held.sendall(b"others")
        self.assertEqual(held.receive_exactly(6), b"others")
        held.close()
        chain.check()


if __name__ == "__main__":
    unittest.main()
