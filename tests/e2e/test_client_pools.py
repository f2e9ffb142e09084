"""The client's links: a pool for each agent, which grows, shrinks, survives and hedges."""

import contextlib
import os
import re
import select
import signal
import socket
import threading
import time
import unittest

from harness import WAIT_S, EchoTarget, Mesh, SocksRefused, receive_exactly, socks_connect, wait_until
from relay import Relay
from test_links import through


def connections(**keys):
    """An edit for Mesh: client.connections.*"""
    text = "".join(f"    {key}: {value}\n" for key, value in keys.items())

    def edit(mesh):
        mesh.rewrite("client", lambda old: old.replace("client:\n", "client:\n  connections:\n" + text, 1))

    return edit


def both(*edits):
    def edit(mesh):
        for each in edits:
            each(mesh)

    return edit


def server_links(mesh):
    """Client links the server has now; an earlier one that was killed did not say that its links ended."""
    log = mesh.programs["server"].text().rpartition(" listening ")[2]
    return len(re.findall("client_link_up", log)) - len(re.findall("client_link_down", log))


def listening_inodes(program, port):
    """What stands behind the listening descriptors of a program on that port."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    inodes = {row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port}
    found = set()
    folder = f"/proc/{program.process.pid}/fd"
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError):
            link = os.readlink(f"{folder}/{fd}")
            if link.startswith("socket:[") and link[8:-1] in inodes:
                found.add((fd, link))
    return found


def freeze(pid):
    os.kill(pid, signal.SIGSTOP)
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        wait_until(lambda: f.seek(0) == 0 and f.read().rpartition(") ")[2][0] == "T", "a relay to stand still")


def readable(sockets):
    return select.select(sockets, [], [], 0)[0]


class PoolTest(unittest.TestCase):
    def make(self, *edits, **options):
        mesh = Mesh(edit=both(*edits), **options)
        if hasattr(mesh, "relay"):
            self.addCleanup(mesh.relay.close)
        self.addCleanup(mesh.close)
        self.target = EchoTarget()
        self.addCleanup(self.target.close)
        return mesh

    def hold(self, mesh, count=1):
        held = []
        for _ in range(count):
            s = socks_connect(mesh.socks_port, "127.0.0.1", self.target.port)
            self.addCleanup(s.close)
            s.sendall(b"held")
            self.assertEqual(receive_exactly(s, 4), b"held")
            held.append(s)
        return held

    def check(self, held, text=b"on"):
        for s in held:
            s.sendall(text)
            self.assertEqual(receive_exactly(s, len(text)), text)

    def answered(self, held, text=b"where"):
        for s in held:
            self.assertEqual(receive_exactly(s, len(text)), text)


class Pools(PoolTest):
    def test_two_agents_are_two_links_and_entries_of_one_agent_share_its_pool(self):
        mesh = self.make(tunnels=[{"protocol": "socks5", "agent_id": "elsewhere"}, {"protocol": "socks5"}])
        wait_until(lambda: server_links(mesh) == 2, "two links at the server")
        self.hold(mesh)
        # The server knows no such agent: that is an answer, and of nobody else's business.
        other = [port for name, port in mesh.ports.items() if name != "socks5"][0]
        with self.assertRaises(SocksRefused):
            socks_connect(other, "127.0.0.1", self.target.port)
        self.hold(mesh)
        self.assertEqual(server_links(mesh), 2)

    def test_streams_spread_over_the_links_and_a_killed_server_costs_no_listener(self):
        mesh = self.make(connections(min=2, max=2), lambda m: setattr(m, "relay", Relay(m.http_port)),
                         lambda m: m.rewrite("client", lambda t: t.replace(f":{m.http_port}", f":{m.relay.port}")))
        wait_until(lambda: server_links(mesh) == 2, "two links at the server")
        self.assertEqual(len(mesh.relay.connections()), 2)
        mesh.wait_idle("client")
        held = self.hold(mesh, 6)
        # Half of the streams stand still with one of the two connections.
        one = mesh.relay.connections()[0]
        freeze(one)
        for s in held:
            s.sendall(b"where")
        moving = wait_until(lambda: len(found := readable(held)) >= 3 and found, "half of the streams")
        self.answered(moving)
        for _ in range(3):  # behind whatever else their link carries
            self.check(moving)
        self.assertEqual((len(moving), readable(held)), (3, []))
        os.kill(one, signal.SIGCONT)
        self.answered([s for s in held if s not in moving])

        client = mesh.programs["client"]
        before = listening_inodes(client, mesh.socks_port)
        self.assertEqual(len(before), 1)
        stop = threading.Event()
        worked = []

        def load():
            while not stop.is_set():
                with contextlib.suppress(OSError, SocksRefused):
                    with socks_connect(mesh.socks_port, "127.0.0.1", self.target.port, timeout_s=5) as s:
                        s.sendall(b"load")
                        if receive_exactly(s, 4) == b"load":
                            worked.append(time.monotonic())
                            continue
                time.sleep(0.01)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(worked) > 50, "load")
            mesh.programs["server"].stop(signal.SIGKILL)
            killed = time.monotonic()
            for s in held:
                s.settimeout(20)
                with contextlib.suppress(ConnectionError):
                    while s.recv(4096):
                        pass
            self.assertEqual(listening_inodes(client, mesh.socks_port), before)
            mesh.start("server")
            wait_until(lambda: any(at > killed + 0.2 for at in worked[-20:]), "service, by itself", 40)
            wait_until(lambda: server_links(mesh) == 2, "both links", 40)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(listening_inodes(client, mesh.socks_port), before, "the same socket throughout")
        self.assertTrue(client.alive())


class Scaling(PoolTest):
    def test_a_busy_pool_grows_an_idle_one_shrinks_and_no_stream_notices(self):
        mesh = self.make(connections(min=1, max=3, high_watermark=4, low_watermark=2,
                                     evaluation_interval="100ms", cooldown="100ms"))
        self.assertEqual(server_links(mesh), 1)
        held = self.hold(mesh, 12)
        wait_until(lambda: server_links(mesh) >= 2, "a second link")
        held += self.hold(mesh, 12)
        wait_until(lambda: server_links(mesh) == 3, "a third link")
        self.check(held)
        # The one that stays sits on any of the links.
        keep = held[-1:]
        for s in held[:-1]:
            s.close()
        wait_until(lambda: "pool_shrink" in mesh.programs["client"].text(), "a link that is too many")
        self.check(keep)
        for s in keep:
            s.close()
        wait_until(lambda: server_links(mesh) == 1, "one link again")
        self.check(self.hold(mesh))


class Hedging(PoolTest):
    def test_opens_on_a_frozen_link_succeed_on_the_other_one_while_it_is_judged(self):
        mesh = self.make(through(Relay, "client"), connections(min=2, max=2))
        wait_until(lambda: server_links(mesh) == 2, "two links at the server")
        self.hold(mesh, 4)
        times = []

        def timed_open():
            began = time.monotonic()
            s = self.hold(mesh)[0]
            times.append(time.monotonic() - began)
            return s

        # Whichever is frozen, some of six opens that stay would have gone there.
        links = mesh.relay.connections()
        self.freeze(mesh, links[0])
        for _ in range(6):
            timed_open()
        os.kill(links[0], signal.SIGCONT)
        wait_until(lambda: self.works_on_both(mesh), "both links")
        client = mesh.programs["client"]
        suspects, count = client.text().count("link_suspect"), len(mesh.relay.connections())
        self.freeze(mesh, links[1])
        for _ in range(6):
            timed_open()
        while client.text().count("link_suspect") == suspects:  # about 3 s
            timed_open().close()
        wait_until(lambda: len(mesh.relay.connections()) > count, "a successor")
        self.hold(mesh, 4)
        print(f"{len(times)} opens, slowest {max(times) * 1e3:.0f} ms")
        self.assertLess(max(times), 5, "0.25 s; an open on a silent link fails after 7")
        os.kill(links[1], signal.SIGKILL)  # or every program waits for its streams

    def freeze(self, mesh, pid):
        freeze(pid)
        # The client reads now what came before: behind the next open it would call the hedge off.
        with socket.create_connection(("127.0.0.1", mesh.socks_port), timeout=WAIT_S) as s:
            s.sendall(b"\x05\x01\x00")
            receive_exactly(s, 2)

    def works_on_both(self, mesh):
        for s in self.hold(mesh, 2):
            s.close()
        return True


if __name__ == "__main__":
    unittest.main()
