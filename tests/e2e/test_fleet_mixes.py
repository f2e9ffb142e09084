"""Requirement K2: every mixed combination of our programs and deployed ones.

One class per combination, each with the same tests. The scripted ends are strict, so every test
also says that nothing was sent which that version does not know.
"""

import hashlib
import os
import socket
import threading
import unittest

from fleet_chain import OURS, Chain
from fleet_client import Refused
from fleet_versions import V8, V9, V10, V11, WINDOW
from harness import SocksRefused, Target, free_port, wait_until
from wire import OPEN_STREAM, STRICT

MIB = 1 << 20


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Mix:
    """The tests of one combination; `ends` are its client, server and agent."""

    ends = ()

    @classmethod
    def setUpClass(cls):
        cls.chain = Chain(*cls.ends)
        cls.is_strict = all(v is OURS or v.strict for v in cls.ends)
        client, server, agent = cls.ends
        cls.is_retried = not cls.is_strict and client is OURS and (server is OURS or server.strict)

    @classmethod
    def tearDownClass(cls):
        cls.chain.close()

    def tearDown(self):
        self.chain.check()

    def connect(self, port):
        flow = self.chain.connect(port)
        self.addCleanup(flow.close)
        return flow

    def target(self, handle):
        target = Target(handle)
        self.addCleanup(target.close)
        return target

    def opens(self, link):
        with link.lock:
            return [(f[1], f[3]) for f in link.frames if f[0] == OPEN_STREAM]

    def test_opens_as_b4_says(self):
        chain = self.chain
        if chain.agent:
            before = len(self.opens(chain.agent.link))
            chain.echo()
            opens = self.opens(chain.agent.link)[before:]
            windows = [w for _, w in opens]
            self.assertEqual([f for f, _ in opens], [STRICT if self.is_strict else 0])
            self.assertEqual([w > 0 for w in windows], [chain.agent.expect_windows], windows)
        if chain.server and chain.versions[0] is OURS:
            before = len(self.opens(chain.server.client))
            chain.echo()
            opens = self.opens(chain.server.client)[before:]
            has_windows = chain.server.version.windows
            want = [STRICT, 0] if self.is_retried else [STRICT if self.is_strict else 0]
            self.assertEqual([f for f, _ in opens], want)
            self.assertEqual([w for _, w in opens], [WINDOW if has_windows else 0] * len(want))
        if chain.client:
            self.assertEqual(chain.client.strict, (chain.versions[1] or V11).strict and chain.client.version.strict)
            flow = chain.connect(chain.echo_target.port)
            self.assertEqual(flow.stream.strict, chain.client.strict)
            flow.close()

    def test_more_than_a_window_both_ways(self):
        flow = self.connect(self.chain.echo_target.port)
        # A V9 server credits twice: what fits into its 16 frames and one window is safe.
        size = 768 * 1024 if self.ends[1] is V9 else 2 * MIB if self.is_strict else MIB
        data = os.urandom(size)
        # Without windows a hop has 256 KiB of patience, and a V9 client has no patience at all.
        if self.is_strict and self.ends[0] is not V9:
            sender = threading.Thread(target=flow.sendall, args=(data,))
            sender.start()
            got = flow.receive_exactly(len(data))
            sender.join()
        else:
            got = b""
            for at in range(0, len(data), 65536):
                flow.sendall(data[at:at + 65536])
                got += flow.receive_exactly(65536)
        self.assertEqual(digest(got), digest(data))
        flow.close()

    def test_client_ends_first(self):
        answer = os.urandom(700_000 if self.is_strict else 200_000)
        seen = []

        def handle(s):
            request = b""
            while piece := s.recv(65536):
                request += piece
            seen.append(digest(request))
            s.sendall(answer)

        flow = self.connect(self.target(handle).port)
        request = os.urandom(100_000)
        flow.sendall(request)
        if self.chain.client and self.chain.client.version.pools:
            flow.close()  # pooled streams know no half-close (LESSONS Z2)
        else:
            flow.finish()
            self.assertEqual(digest(flow.read_to_end()), digest(answer))
            flow.close()
        wait_until(lambda: seen == [digest(request)], "the whole request")

    def test_target_ends_first(self):
        seen = []

        def handle(s):
            s.sendall(b"answer")
            s.shutdown(socket.SHUT_WR)
            late = b""
            while piece := s.recv(65536):
                late += piece
            seen.append(digest(late))

        flow = self.connect(self.target(handle).port)
        self.assertEqual(flow.read_to_end(), b"answer")
        late = os.urandom(100_000)
        flow.sendall(late)
        flow.close()
        wait_until(lambda: seen == [digest(late)], "what the client sent after the end of the answer")

    def test_refused_target(self):
        port = free_port()
        if not self.is_strict:
            # The open is optimistic; the stream then breaks.
            with self.assertRaises(OSError):
                flow = self.connect(port)
                if flow.recv(1) == b"":
                    raise ConnectionResetError
        elif self.chain.client:
            with self.assertRaises(Refused) as refused:
                self.chain.connect(port)
            self.assertEqual(refused.exception.result["code"], "connection_refused")
        else:
            with self.assertRaises(SocksRefused) as refused:
                self.chain.connect(port)
            self.assertEqual(refused.exception.reply, 5)

    def test_client_resets(self):
        ended = threading.Event()

        def handle(s):
            s.sendall(b"first")
            try:
                while s.recv(65536):
                    pass
            finally:
                ended.set()

        flow = self.connect(self.target(handle).port)
        self.assertEqual(flow.receive_exactly(5), b"first")
        flow.abort()
        self.assertTrue(ended.wait(30), "the target never heard of it")

    def test_target_resets(self):
        def handle(s):
            s.recv(1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        flow = self.connect(self.target(handle).port)
        flow.sendall(b"x")
        with self.assertRaises(ConnectionResetError):
            flow.receive_exactly(1)
        flow.close()

    def test_sixteen_at_once(self):
        failures = []

        def one():
            try:
                self.chain.echo(os.urandom(30_000))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=one) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


def combinations():
    for bits in range(1, 7):  # neither all ours nor all V8
        yield tuple(V8 if bits & 1 << i else OURS for i in range(3))
    for version in (V9, V10, V11):
        for place in range(3):
            yield tuple(version if i == place else OURS for i in range(3))


for _ends in combinations():
    _name = "".join("Ours" if v is OURS else str(v) for v in _ends)
    globals()[_name] = type(_name, (Mix, unittest.TestCase), {"ends": _ends})


if __name__ == "__main__":
    unittest.main()
