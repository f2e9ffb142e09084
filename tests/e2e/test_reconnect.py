"""Links and programs that end and come back: nothing piles up, nothing has to be restarted by hand."""

import contextlib
import json
import os
import signal
import socket
import time
import unittest

from harness import EchoTarget, Mesh, MeshTest, SocksRefused, receive_exactly, socks_connect, wait_until
from measure import (MIB, Box, all_descriptors, anonymous_bytes, client_identity, is_instrumented, more_descriptors,
                     often, open_frame, scripted_client, through_box, timed_echo, wait_for_descriptors)
from wire import AGENT_HELLO, AGENT_METADATA_ACK, DATA, OPEN_RESULT, Closed, Peer, frame


class KilledPrograms(MeshTest):
    def test_a_client_killed_and_restarted_at_once_has_its_entry_again(self):
        echo = EchoTarget()
        before = None
        try:
            for _ in range(often(5, 50)):
                with socks_connect(self.mesh.socks_port, "127.0.0.1", echo.port) as s:
                    s.sendall(b"before")
                    receive_exactly(s, 6)
                    self.mesh.programs["client"].stop(signal.SIGKILL)
                    with contextlib.suppress(OSError):
                        self.assertEqual(s.recv(1), b"")
                self.mesh.start("client")  # the same entry's port, at once
                self.mesh.wait_ready()
                timed_echo(self.mesh.socks_port, echo.port)
                server, agent = (self.mesh.programs[n] for n in ("server", "agent"))
                now = {n: len(os.listdir(f"/proc/{p.process.pid}/fd")) for n, p in (("server", server),
                                                                                   ("agent", agent))}
                before = before or now
            wait_for_descriptors(before, self.mesh)
        finally:
            echo.close()

    def test_an_agent_killed_and_restarted_at_once_serves_again(self):
        echo = EchoTarget()
        try:
            for _ in range(often(3, 30)):
                self.mesh.programs["agent"].stop(signal.SIGKILL)
                self.mesh.start("agent")
                self.mesh.wait_ready()
                timed_echo(self.mesh.socks_port, echo.port)
        finally:
            echo.close()


class ManyLinks(MeshTest):
    """Scripted peers connect, use their link, and go in every way; the server keeps nothing of them."""

    @classmethod
    def setUpClass(cls):
        more_descriptors()
        super().setUpClass()
        cls.token, cls.agent_id = client_identity(cls.mesh)

    def memory(self):
        return {n: anonymous_bytes(p) for n, p in self.mesh.programs.items()}

    def test_reconnects_of_clients_leave_nothing(self):
        echo = EchoTarget()
        try:
            self.one_link(echo, 0)
            before, memory = all_descriptors(self.mesh), self.memory()
            for i in range(often(200, 1000)):
                self.one_link(echo, i)
            wait_for_descriptors(before, self.mesh)
            after = self.memory()
            print("memory grown by", {n: f"{(after[n] - memory[n]) / 1024:.0f} KiB" for n in memory})
            if not is_instrumented():
                for name in memory:
                    self.assertLess(after[name], memory[name] + 8 * MIB, name)
            timed_echo(self.mesh.socks_port, echo.port)
        finally:
            echo.close()

    def one_link(self, echo, how):
        with scripted_client(self.mesh, self.token) as peer:
            peer.send_together(*(open_frame(i, echo.port, self.agent_id) for i in (1, 2, 3)))
            for _ in (1, 2, 3):
                self.assertEqual(json.loads(peer.expect(OPEN_RESULT)[4])["code"], "ok")
            peer.send(DATA, 1, b"half of it")
            if how % 4 == 1:
                peer.s.sendall(b"\x82")  # goes in the middle of a message
            elif how % 4 == 2:
                peer.send_ws(8, b"\x03\xe8")
            elif how % 4 == 3:
                peer.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    def test_agents_that_come_and_go_leave_nothing(self):
        token = None
        for line in self.mesh.read("agent").splitlines():
            if "token:" in line:
                token = line.split(":", 1)[1].strip().strip('"')
        before = all_descriptors(self.mesh)
        for i in range(often(100, 1000)):
            with Peer(self.mesh.http_port, "/ws/agent", token) as peer:
                body = {"agent_id": self.agent_id, "instance_id": "agent-" + "0" * 32, "connection_id": f"come-{i}",
                        "node_id": "n1", "epoch": 1, "revision": 1, "reported_at": "2026-01-02T03:04:05Z",
                        "items": [], "capabilities": ["stream_open_result.v1"]}
                peer.send(AGENT_HELLO, payload=json.dumps(body).encode())
                self.assertTrue(json.loads(peer.expect(AGENT_METADATA_ACK)[4])["accepted"])
        wait_for_descriptors(before, self.mesh)
        self.mesh.wait_ready()


class CutLinks(unittest.TestCase):
    def test_links_cut_again_and_again_come_back_and_nothing_piles_up(self):
        boxes = []

        def edit(mesh):
            boxes.append(Box(mesh.http_port))
            through_box(mesh, boxes[0])

        mesh = Mesh(edit=edit)
        echo = EchoTarget()
        try:
            timed_echo(mesh.socks_port, echo.port)
            before = all_descriptors(mesh)
            for _ in range(often(4, 30)):
                held = socks_connect(mesh.socks_port, "127.0.0.1", echo.port)
                boxes[0].cut()
                held.settimeout(30)
                with contextlib.suppress(ConnectionResetError):
                    self.assertEqual(held.recv(1), b"")
                held.close()
                mesh.wait_ready()
            wait_for_descriptors(before, mesh)
        finally:
            echo.close()
            mesh.close()
            boxes[0].close()

    def test_a_server_that_is_killed_serves_again_soon_after_its_return(self):
        mesh = Mesh()
        echo = EchoTarget()
        try:
            mesh.programs["server"].stop(signal.SIGKILL)
            time.sleep(1)
            mesh.start("server")
            begin = time.monotonic()

            def served():
                with contextlib.suppress(SocksRefused, OSError):
                    timed_echo(mesh.socks_port, echo.port)
                    return True
                return False

            wait_until(served, "a good open")
            took = time.monotonic() - begin
            print(f"first good open {took:.2f} s after the server's return")
            self.assertLess(took, 15)
        finally:
            echo.close()
            mesh.close()


if __name__ == "__main__":
    unittest.main()
