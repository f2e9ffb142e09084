"""Questions to the database about rights, with and without kept decisions (requirement K7).

Counted at the database itself, so polls of the revision and presence count too.
"""

import socket
import struct
import time
import unittest

from cluster import Cluster
from harness import WAIT_S, EchoTarget, SocksRefused, receive_exactly, socks_address, socks_connect, wait_until
from measure import often

BASE = "/api/v1"
OPENS = 32  # of one page
PAGES = often(100, 1000)
TARGETS = 8


def load_page(port, targets):
    """32 streams at a time, as a browser opens them; closed when all are there."""
    request = b"\x05\x01\x00"
    sockets = []
    try:
        for i in range(OPENS):
            s = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
            sockets.append(s)
            target = targets[i % len(targets)].port
            s.sendall(request + b"\x05\x01\x00" + socks_address("127.0.0.1") + struct.pack(">H", target))
        for s in sockets:
            answer = receive_exactly(s, 12)
            if answer[3] != 0:
                raise SocksRefused(answer[3])
    finally:
        for s in sockets:
            s.close()


class Load:
    """A server on its own MariaDB, and what a page load asks there."""

    def __init__(self, cache):
        self.mesh = Cluster(1, f"  authorization_cache:\n    enabled: {'true' if cache else 'false'}\n")
        self.targets = [EchoTarget() for _ in range(TARGETS)]
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        server = self.mesh.names[0]
        self.mesh.start(server)
        api = self.mesh.api(server)
        agent = api.post(f"{BASE}/agents", {"name": "home"}).data["id"]
        api.post(f"{BASE}/agents/{agent}/policies", {"targetHost": "127.0.0.1", "targetPort": 0, "protocol": "tcp"})
        token = api.post(f"{BASE}/tokens", {"type": "agent", "agentId": agent}).data["secret"]
        self.mesh.start_agent(server, agent, token)
        token = api.post(f"{BASE}/tokens", {"type": "client"}).data["secret"]
        self.port = self.mesh.start_client(server, agent, token)

        def works():
            try:
                socks_connect(self.port, "127.0.0.1", self.targets[0].port).close()
            except (OSError, SocksRefused):
                return False
            return True
        wait_until(works, "the first stream")

    def statements(self):
        rows = self.mesh.db.sql("SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_stmt_execute', 'Questions')")
        found = dict(row.split("\t") for row in rows.splitlines())
        return int(found["Com_stmt_execute"]), int(found["Questions"])

    def count(self):
        """Prepared statements and all questions for PAGES page loads in steady state, and the time."""
        for _ in range(3):
            load_page(self.port, self.targets)
        before = self.statements()
        begun = time.monotonic()
        for _ in range(PAGES):
            load_page(self.port, self.targets)
        past_s = time.monotonic() - begun
        after = self.statements()
        return after[0] - before[0], after[1] - before[1], past_s

    def close(self):
        for target in self.targets:
            target.close()
        self.mesh.close()


class AuthorizationLoad(unittest.TestCase):
    def measure(self, cache):
        load = Load(cache)
        try:
            return load.count()
        finally:
            load.close()

    def test_kept_decisions_save_99_of_100_statements(self):
        off, on = self.measure(False), self.measure(True)
        for name, (executed, questions, past_s) in (("off", off), ("on", on)):
            print(f"cache {name}: {PAGES} page loads of {OPENS} opens in {past_s:.1f} s: "
                  f"{executed} statements executed, {questions} questions in all")
        print(f"saved: {100 - 100 * on[0] / off[0]:.2f} % of the statements, "
              f"{100 - 100 * on[1] / off[1]:.2f} % of all questions")
        self.assertGreaterEqual(off[0], PAGES, "without the cache each page load asks")
        self.assertLessEqual(on[0], off[0] / 100)
        self.assertLessEqual(on[1], off[1] / 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
