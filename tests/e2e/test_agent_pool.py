"""The agent's pool of links: its size under load and without, and what happens to streams (E6, J11)."""

import contextlib
import re
import signal
import unittest

from api_client import admin_api
from harness import EchoTarget, MeshTest, SocksRefused, receive_exactly, socks_connect, wait_until

POOL = """  connections:
    min: 2
    max: 4
    high_watermark: 4
    low_watermark: 2
    evaluation_interval: 200ms
    cooldown: 200ms
"""


class AgentPool(MeshTest):
    options = {"edit": lambda mesh: mesh.append("agent", POOL)}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = admin_api(cls.mesh)
        cls.agent = cls.mesh.admin("agent", "list")[0]["id"]
        cls.target = EchoTarget()

    @classmethod
    def tearDownClass(cls):
        cls.target.close()
        super().tearDownClass()

    def setUp(self):
        self.wait_links(2)
        self.log_start = len(self.log())

    def log(self):
        return self.mesh.programs["agent"].text()

    def links(self):
        answer = self.api.get(f"/api/v1/agents/{self.agent}/connections")
        self.assertEqual(answer.status, 200)
        return {c["connectionId"] for c in answer.data["connections"]}

    def wait_links(self, count):
        return wait_until(lambda: (found := self.links()) and len(found) == count and found, f"{count} links")

    def open(self, count):
        streams = [socks_connect(self.mesh.socks_port, "127.0.0.1", self.target.port) for _ in range(count)]
        for s in streams:
            self.addCleanup(s.close)
            self.echo(s)
        return streams

    def echo(self, stream):
        stream.sendall(b"still there?")
        self.assertEqual(receive_exactly(stream, 12), b"still there?")

    def decisions(self, what):
        return len(re.findall(rf" {what} ", self.log()[self.log_start:]))

    def test_1_the_minimum_is_there_and_streams_spread_over_it(self):
        wait_until(lambda: self.active() == [0, 0], "the streams of before to end")
        streams = self.open(4)
        wait_until(lambda: sorted(self.active()) == [2, 2], "two streams on each link")
        for s in streams:
            s.close()

    def active(self):
        data = self.api.get(f"/api/v1/agents/{self.agent}/connections").data["connections"]
        return [c["activeStreams"] for c in data]

    def test_2_grows_under_load_and_shrinks_without_losing_a_stream(self):
        first = self.wait_links(2)
        load = self.open(12)
        three = self.wait_links(3)
        self.assertLess(first, three, "the links that were there stay")
        load += self.open(8)  # the new link takes them until it has as many as the others
        self.wait_links(4)
        self.assertIn("pool_grow slot=3 reason=active_streams", self.log()[self.log_start:])
        # The next ones are the newest link's, which is the first to go.
        kept = self.open(1)[0]
        for s in load:
            self.echo(s)
            s.close()
        # Three go: slot 4 keeps its link as long as the stream runs, slot 3 has nothing.
        wait_until(lambda: self.decisions("pool_shrink") == 2, "two shrinks")
        self.wait_links(3)
        self.echo(kept)
        new = self.open(3)
        for s in new:
            self.echo(s)
        self.echo(kept)
        self.assertEqual(len(self.links()), 3)
        kept.close()
        self.assertEqual(self.wait_links(2) & first, first, "the links of the beginning never went")
        for s in new:
            self.echo(s)

    def test_3_a_server_that_is_killed_gets_all_links_back(self):
        before = self.wait_links(2)
        self.mesh.programs["server"].stop(signal.SIGKILL)
        self.mesh.start("server")
        self.__class__.api = admin_api(self.mesh)

        def works():
            with contextlib.suppress(OSError, SocksRefused):
                socks_connect(self.mesh.socks_port, "127.0.0.1", self.target.port).close()
                return True
            return False
        wait_until(works, "a stream after the restart")
        after = wait_until(lambda: (found := self.links() - before) and len(found) == 2 and found, "two new links")
        self.assertFalse(after & before, "every link has an id of its own (LESSONS Z15)")
        self.open(1)

    def test_4_new_bounds_hold_while_it_runs(self):
        before = self.wait_links(2)
        held = self.open(4)
        self.addCleanup(self.bounds, 2, 4)
        self.bounds(3, 3)
        self.assertLess(before, self.wait_links(3))
        self.bounds(1, 1)
        wait_until(lambda: self.decisions("pool_shrink [^\n]*reason=settings") == 2, "two links that are too many")
        for s in held:
            self.echo(s)
            s.close()
        self.assertLess(self.wait_links(1), before)

    def bounds(self, least, most):
        now = f"min: {least}\n    max: {most}"
        self.mesh.rewrite("agent", lambda text: re.sub(r"min: \d+\n    max: \d+", now, text))
        self.mesh.programs["agent"].process.send_signal(signal.SIGHUP)


if __name__ == "__main__":
    unittest.main()
