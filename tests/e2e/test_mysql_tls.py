"""A server whose database takes nobody without TLS."""

import subprocess
import unittest

from cluster import Cluster
from harness import BIN, WAIT_S, EchoTarget, SocksRefused, receive_exactly, socks_connect, wait_until

BASE = "/api/v1"


class MysqlTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mesh = Cluster(1, tls=True)
        cls.server = cls.mesh.names[0]

    @classmethod
    def tearDownClass(cls):
        cls.mesh.close()

    def run_with(self, change):
        """Exit code and output of a server that cannot start."""
        with open(self.mesh.path(self.server, "server.yaml"), encoding="utf-8") as f:
            text = change(f.read())
        path = self.mesh.write(self.server, "other.yaml", text)
        done = subprocess.run([f"{BIN}/tunnelmesh-server", "run", "--config", path], capture_output=True, text=True,
                              timeout=WAIT_S, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_a_stream_is_authorised_over_tls(self):
        self.mesh.start(self.server)
        api = self.mesh.api(self.server)
        agent = api.post(f"{BASE}/agents", {"name": "home"}).data["id"]
        api.post(f"{BASE}/agents/{agent}/policies", {"targetHost": "127.0.0.1", "targetPort": 0, "protocol": "tcp"})
        for_agent = api.post(f"{BASE}/tokens", {"type": "agent", "agentId": agent}).data["secret"]
        for_client = api.post(f"{BASE}/tokens", {"type": "client"}).data["secret"]
        self.mesh.start_agent(self.server, agent, for_agent)
        port = self.mesh.start_client(self.server, agent, for_client)
        echo = EchoTarget()
        self.addCleanup(echo.close)

        def answers():
            try:
                with socks_connect(port, "127.0.0.1", echo.port) as s:
                    s.sendall(b"ping")
                    return receive_exactly(s, 4) == b"ping"
            except (OSError, SocksRefused):
                return False
        wait_until(answers, "a stream")
        encrypted = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'tls_only'"
        wait_until(lambda: int(self.mesh.db.sql(encrypted)) >= 6, "the connections of all lanes")

    def test_a_server_that_cannot_connect_says_where_and_why_and_never_the_password(self):
        for change in (
            lambda text: text.replace("tls: true", "tls: false"),
            lambda text: text.replace(self.mesh.db.ca, self.mesh.db.other_ca),
            lambda text: text.replace("127.0.0.1:" + str(self.mesh.db.port), "localhost:" + str(self.mesh.db.port)),
        ):
            code, output = self.run_with(change)
            self.assertEqual(code, 1, output)
            self.assertIn(f":{self.mesh.db.port}/{self.mesh.database}", output)
            self.assertNotIn(self.mesh.db.password, output)
            print(output.strip())


if __name__ == "__main__":
    unittest.main(verbosity=2)
