"""The http entry: a local port that is one web service behind an agent, in clear or behind TLS."""

import os
import shutil
import ssl
import subprocess
import tempfile
import unittest

from harness import MeshTest, wait_until
from http_tools import BINARY, Origin, Reader, WebSocket, connect, fields_of, message, pattern, status_of

CA = os.path.join(os.path.dirname(__file__), "..", "support", "make_ca.sh")


class HttpEntry(MeshTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tmesh-http-")
        subprocess.run(["bash", CA, cls.folder], check=True, timeout=60)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(os.path.join(cls.folder, "server.pem"), os.path.join(cls.folder, "server-key.pem"))
        cls.plain = Origin()
        cls.secure = Origin(tls=tls)
        target = {"protocol": "http", "target_host": "127.0.0.1"}
        cls.options = {
            "tunnels": (
                {**target, "target_port": cls.plain.port, "hosts": ["wiki.example", "docs.example:9000"]},
                *({**target, "target_port": cls.secure.port, "target_scheme": "https", "tls_server_name": name}
                  for name in ("localhost", "other.example")),
            ),
            "edit": lambda mesh: mesh.rewrite("agent", lambda text: text.replace(
                "agent:\n", f"agent:\n  streams:\n    tls_ca_file: {cls.folder}/ca.pem\n", 1)),
        }
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.plain.close()
        cls.secure.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setUp(self):
        self.plain.heads.clear()
        self.secure.heads.clear()

    def ask(self, port, target="/", method="GET", body=b"", host=None, **fields):
        with connect(port) as s:
            s.sendall(message(f"{method} {target} HTTP/1.1", body, Host=host or f"127.0.0.1:{port}", **fields))
            return Reader(s).answer(method)

    def each(self):
        """Port, origin and the origin's own name, in clear and behind TLS."""
        return ((self.mesh.ports["http"], self.plain, f"http://127.0.0.1:{self.plain.port}"),
                (self.mesh.ports["http-2"], self.secure, f"https://127.0.0.1:{self.secure.port}"))

    def test_the_target_is_asked_under_its_own_name(self):
        for port, origin, name in self.each():
            head, _ = self.ask(port, "/a?b", X="y")
            self.assertEqual(status_of(head), 200)
            self.assertEqual(origin.heads[-1].decode(),
                             f"GET /a?b HTTP/1.1\r\nHost: {name.partition('://')[2]}\r\nX: y\r\n\r\n")

    # The agent's links are ws:// until then, and have no certificates that could be shared.
    def test_a_wss_url_that_waits_for_a_restart_leaves_https_targets_alone(self):
        agent = self.mesh.programs["agent"]
        before = self.mesh.read("agent")

        def reload(text):
            count = agent.text().count("config_reloaded")
            self.mesh.rewrite("agent", lambda _: text)
            wait_until(lambda: agent.text().count("config_reloaded") > count, "the reload")

        reload(before.replace("ws://", "wss://").replace("agent:\n", f"agent:\n  tls: {{ca_file: {self.folder}/ca.pem}}\n", 1))
        try:
            self.assertIn("config_needs_restart keys=agent.server_url\n", agent.text())
            self.assertEqual(status_of(self.ask(self.mesh.ports["http-2"], "/")[0]), 200)
        finally:
            reload(before)

    def test_bodies_both_ways(self):
        n = 2_000_000
        for port, _, _ in self.each():
            self.assertEqual(self.ask(port, f"/bytes/{n}")[1], pattern(n))
            self.assertEqual(self.ask(port, "/count", "PUT", pattern(n), Content_Length=n)[1], str(n).encode())
            body = b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"
            self.assertEqual(self.ask(port, "/chunks", "POST", body, Transfer_Encoding="chunked")[1], body)
            self.assertEqual(self.ask(port, "/close/50000")[1], pattern(50_000))

    def test_one_connection_serves_many_requests(self):
        for port, origin, _ in self.each():
            before = origin.connections()
            with connect(port) as s:
                reader = Reader(s)
                s.sendall(b"".join(message(f"GET /{i} HTTP/1.1", Host="localhost") for i in range(20)))
                for i in range(20):
                    self.assertTrue(reader.answer()[1].startswith(f"GET /{i} ".encode()))
            self.assertEqual(origin.connections() - before, 1)

    # INTERFACE 0: a page that makes its name point to this machine gets nothing.
    def test_other_hosts_are_misdirected(self):
        port = self.mesh.ports["http"]
        for host in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", "wiki.example", "Wiki.Example:1234",
                     "docs.example:9000"):
            self.assertEqual(status_of(self.ask(port, host=host)[0]), 200, host)
        self.plain.heads.clear()
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", "127.0.0.2", "docs.example",
                     "localhost.evil.example", f"127.0.0.1:{self.plain.port}"):
            self.assertEqual(status_of(self.ask(port, host=host)[0]), 421, host)
            self.assertEqual(status_of(self.ask(port, f"http://{host}/", host="localhost")[0]), 421, host)
        self.assertEqual(self.plain.heads, [])

    def test_its_own_pages_stay_its_own(self):
        for port, origin, name in self.each():
            own = f"http://localhost:{port}"
            self.ask(port, "/form", "POST", host=f"localhost:{port}", Origin=own, Referer=f"{own}/page",
                     Content_Length=0)
            fields = fields_of(origin.heads[-1])
            self.assertEqual((fields["origin"], fields["referer"]), (name, f"{name}/page"))
            self.ask(port, "/form", "POST", host=f"localhost:{port}", Origin="http://evil.example", Content_Length=0)
            self.assertEqual(fields_of(origin.heads[-1])["origin"], "http://evil.example")

    def test_redirects_at_the_target_lead_back_to_the_entry(self):
        port = self.mesh.ports["http"]
        head, _ = self.ask(port, "/away", host=f"localhost:{port}")
        self.assertEqual(fields_of(head)["location"], f"http://localhost:{port}/here")
        done = subprocess.run(["curl", "-sS", "-L", "--max-time", "20", f"http://127.0.0.1:{port}/away"],
                              capture_output=True, check=False, timeout=30)
        self.assertTrue(done.stdout.startswith(b"GET /here HTTP/1.1\r\n"), done)

    def test_web_sockets(self):
        for port, origin, name in self.each():
            ws = WebSocket(connect(port), "/ws", f"localhost:{port}", Origin=f"http://localhost:{port}")
            self.assertEqual(fields_of(origin.heads[-1])["origin"], name)
            self.assertEqual(ws.greeting, (BINARY, b"greeting"))
            for n in (1, 200, 100_000):
                ws.send(pattern(n))
                self.assertEqual(ws.receive(), (BINARY, pattern(n)))
            self.assertEqual(ws.close(), b"")

    def test_a_certificate_of_another_name_is_no_target(self):
        head, body = self.ask(self.mesh.ports["http-3"])
        self.assertEqual(status_of(head), 502, head)
        self.assertNotIn(b"127.0.0.1", head + body)
        self.assertEqual(self.secure.heads, [])

    def test_proxy_forms_are_refused(self):
        port = self.mesh.ports["http"]
        self.assertEqual(status_of(self.ask(port, f"127.0.0.1:{self.plain.port}", "CONNECT")[0]), 400)
        self.assertEqual(status_of(self.ask(port, "https://localhost/")[0]), 400)


if __name__ == "__main__":
    unittest.main()
