"""wss with a test CA on both links; a certificate that does not fit is refused."""

import os
import subprocess
import unittest

from harness import EchoTarget, Mesh, MeshTest, receive_exactly, socks_connect, wait_until

MAKE_CA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "make_ca.sh")


def use_tls(mesh, san="DNS:localhost,IP:127.0.0.1", trusted=True):
    pki = os.path.join(mesh.folder, "pki")
    subprocess.run([MAKE_CA, pki, san], check=True, timeout=60)
    mesh.append("server", f"""
tls:
  enabled: true
  cert_file: {pki}/server.pem
  key_file: {pki}/server-key.pem
""")
    for role in ("agent", "client"):
        ca = f"\n  tls:\n    ca_file: {pki}/ca.pem" if trusted else ""
        mesh.rewrite(role, lambda text, ca=ca: text.replace("ws://", "wss://", 1).replace(
            f"\n{role}:", f"\n{role}:{ca}", 1) if f"\n{role}:" in text else
            text.replace("ws://", "wss://", 1).replace(f"{role}:", f"{role}:{ca}", 1))


class Tls(MeshTest):
    options = {"edit": use_tls}

    def test_bytes_through_wss_links(self):
        target = EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                data = os.urandom(3_000_000)
                sent = 0
                got = bytearray()
                while len(got) < len(data):
                    if sent < len(data):
                        s.sendall(data[sent:sent + 60000])
                        sent += 60000
                    got += s.recv(262144)
                self.assertEqual(bytes(got), data)
        finally:
            target.close()

    def test_curl_sees_a_valid_certificate(self):
        done = subprocess.run(
            ["curl", "-sS", "--fail", "--cacert", os.path.join(self.mesh.folder, "pki", "ca.pem"),
             f"https://127.0.0.1:{self.mesh.http_port}/health/live"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"status":"ok"', done.stdout.replace(" ", ""))

    def test_agent_reconnects_with_a_resumed_session(self):
        self.mesh.programs["server"].stop()
        self.mesh.start("server")
        target = EchoTarget()
        try:
            self.mesh.wait_ready()
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                s.sendall(b"again")
                self.assertEqual(receive_exactly(s, 5), b"again")
        finally:
            target.close()


class Refused(unittest.TestCase):
    def check(self, **options):
        mesh = Mesh(edit=lambda m: use_tls(m, **options), start=("server", "agent"))
        try:
            agent = mesh.programs["agent"]
            wait_until(lambda: "certificate" in agent.text() or not agent.alive(), "the agent's complaint")
            self.assertTrue(agent.alive(), "an agent never gives up: " + agent.text())
            self.assertNotIn("BEGIN", agent.text())
        finally:
            mesh.close()

    def test_unknown_ca(self):
        self.check(trusted=False)

    def test_wrong_name(self):
        self.check(san="DNS:other.example")


if __name__ == "__main__":
    unittest.main()
