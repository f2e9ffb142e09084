"""Start, stop, reconnect: links come and go, local listeners stay."""

import os
import signal
import socket
import threading
import time
import unittest

from api_client import admin_api
from harness import (EchoTarget, Mesh, MeshTest, SocksRefused, Target, http_get, receive_exactly, socks_connect,
                     wait_until)


class Life(MeshTest):
    def echo(self, text=b"alive"):
        target = EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                s.sendall(text)
                return receive_exactly(s, len(text)) == text
        finally:
            target.close()

    def test_health(self):
        status, body = http_get(self.mesh.http_port, "/health/live")
        self.assertEqual((status, b'"ok"' in body), (200, True), body)
        status, body = http_get(self.mesh.http_port, "/health/ready")
        self.assertEqual((status, b'"database"' in body), (200, True), body)

    def test_agent_killed_and_back(self):
        self.mesh.programs["agent"].stop(signal.SIGKILL)

        def offline():
            try:
                socks_connect(self.mesh.socks_port, "127.0.0.1", 9).close()
                return False
            except SocksRefused as refused:
                return refused.reply == 4

        wait_until(offline, "host unreachable while the agent is away")
        self.mesh.start("agent")
        self.mesh.wait_ready()
        self.assertTrue(self.echo())

    def test_an_agent_that_died_without_a_word_gets_no_opens_once_its_successor_is_there(self):
        # Its link stays for 90 s, with fewer streams than the new one's.
        target = EchoTarget()
        dead = self.mesh.programs["agent"]
        dead.process.send_signal(signal.SIGSTOP)
        held = []
        try:
            self.mesh.start("agent")

            def hold():
                try:
                    return socks_connect(self.mesh.socks_port, "127.0.0.1", target.port)
                except SocksRefused:
                    return None

            held.append(wait_until(hold, "a stream through the new agent"))
            links = f"/api/v1/agents/{self.mesh.agent_id}/connections"
            api = admin_api(self.mesh)
            wait_until(lambda: any(link["healthScore"] == 0 for link in api.get(links).data["connections"]),
                       "the dead link to be suspect")  # 3 s for the answer to a probe
            for _ in range(4):  # each leaves the new link one stream busier
                began = time.monotonic()
                held.append(socks_connect(self.mesh.socks_port, "127.0.0.1", target.port))
                self.assertLess(time.monotonic() - began, 4)
        finally:
            dead.process.send_signal(signal.SIGKILL)
            dead.stop()
            for s in held:
                s.close()
            target.close()

    def test_server_killed_and_back_and_the_entry_keeps_its_port(self):
        self.mesh.programs["server"].stop(signal.SIGKILL)
        wait_until(lambda: self.refused_with(4), "agent unavailable without a server")
        self.mesh.start("server")
        self.mesh.wait_ready()
        self.assertTrue(self.echo())

    def refused_with(self, reply):
        try:
            socks_connect(self.mesh.socks_port, "127.0.0.1", 9).close()
        except SocksRefused as refused:
            return refused.reply == reply
        return False

    def test_client_without_server_at_start_answers_and_recovers(self):
        for name in ("client", "server"):
            self.mesh.programs[name].stop()
        self.mesh.start("client")
        wait_until(lambda: self.refused_or_none() == 4, "reply 4 before any link exists")
        self.mesh.start("server")
        self.mesh.wait_ready()
        self.assertTrue(self.echo())

    def refused_or_none(self):
        try:
            socks_connect(self.mesh.socks_port, "127.0.0.1", 9).close()
        except SocksRefused as refused:
            return refused.reply
        except OSError:
            return None
        return 0


class Drain(unittest.TestCase):
    def test_sigterm_lets_a_running_download_finish(self):
        mesh = Mesh()
        go = threading.Event()

        def handle(s):
            s.sendall(b"first half ")
            go.wait(30)
            s.sendall(b"second half")

        target = Target(handle)
        try:
            with socks_connect(mesh.socks_port, "127.0.0.1", target.port) as s:
                self.assertEqual(receive_exactly(s, 11), b"first half ")
                mesh.programs["server"].process.send_signal(signal.SIGTERM)
                wait_until(lambda: not self.accepts(mesh.http_port), "the listener to close")
                go.set()
                self.assertEqual(receive_exactly(s, 11), b"second half")
                self.assertEqual(s.recv(1), b"")
            self.assertEqual(mesh.programs["server"].process.wait(30), 0)
        finally:
            target.close()
            mesh.close()

    def accepts(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    def test_descriptors_return_to_the_baseline(self):
        mesh = Mesh()
        target = EchoTarget()
        try:
            def count():
                return [len(os.listdir(f"/proc/{p.process.pid}/fd")) for p in mesh.programs.values()]

            time.sleep(0.5)
            before = count()
            for _ in range(200):
                with socks_connect(mesh.socks_port, "127.0.0.1", target.port) as s:
                    s.sendall(b"x")
                    receive_exactly(s, 1)
            wait_until(lambda: all(now <= was + 1 for now, was in zip(count(), before)), f"{before}, now {count()}")
        finally:
            target.close()
            mesh.close()


if __name__ == "__main__":
    unittest.main()
