"""Rights that are taken away while streams run (requirement K3, LESSONS P-K1).

On SQLite with one server, and with two servers on one private MariaDB: what is changed
through the first one, or by a command, counts at the second one, where agents and clients
are. A download of somebody else runs during all of it and must arrive bit by bit.
"""

import contextlib
import datetime
import os
import signal
import sqlite3
import tempfile
import time
import unittest

from cluster import Cluster
from harness import (
    WAIT_S,
    EchoTarget,
    SocksRefused,
    free_port,
    http_get,
    socks_connect,
    wait_until,
)
from running_streams import BLOCK_BYTES, Download, Endless, Opens, answers, time_of_end

BASE = "/api/v1"
K3_S = 3.0
CACHED_S = 5.0  # how long after the last good poll an allow may still be used (D9)


class SqliteServer(Cluster):
    """One server with its file, in the form of a cluster of one."""

    class Database:
        def __init__(self, path):
            self.path = path

        def sql(self, text):
            with contextlib.closing(sqlite3.connect(self.path, timeout=WAIT_S)) as db:
                with db:
                    return db.execute(text).fetchall()

        def stop(self):
            pass

    def __init__(self, more=""):
        self.folder = tempfile.mkdtemp(prefix="tmesh-single-")
        self.db = self.Database(self.path("tunnelmesh.db"))
        self.names = ["server-a"]
        self.ports = {"server-a": free_port()}
        self.programs = {}
        os.mkdir(self.path("server-a"))
        self.write("server-a", "server.yaml", f"""storage:
  sqlite:
    path: "{self.path('tunnelmesh.db')}"
server:
  http_addr: "127.0.0.1:{self.ports['server-a']}"
{more}""")
        self.administrator = self.admin("admin", "bootstrap")

    def sql(self, text):
        self.db.sql(text)


class TwoServers(Cluster):
    def sql(self, text):
        self.db.sql(text, self.database)


class Rights:
    """The tests; the classes below say on what."""

    make = None
    mesh = None

    @classmethod
    def setUpClass(cls):
        cls.mesh = cls.make()
        for name in cls.mesh.names:
            cls.mesh.start(name)
        cls.here = cls.mesh.names[-1]  # where agents and clients are
        cls.api = cls.mesh.api(cls.mesh.names[0])
        cls.echo = EchoTarget()
        cls.sockets = []
        cls.user = cls.ask("POST", "/users", {"username": "victim"})["id"]
        cls.home = cls.start_agent("home", ownerUserId=cls.user)
        cls.steady = cls.start_agent("steady")
        cls.allow(cls.steady)
        cls.policy = cls.allow(cls.home)
        cls.unrelated = Endless(seed=1)
        secret = cls.ask("POST", "/tokens", {"type": "client"})["secret"]
        port = cls.mesh.start_client(cls.here, cls.steady, secret, "steady-client")
        cls.download = Download(cls.connect(port, cls.unrelated.port), 1)

    @classmethod
    def tearDownClass(cls):
        cls.unrelated.is_over.set()
        cls.download.join(WAIT_S)
        ended = cls.download.ended_at
        cls.echo.close()
        cls.unrelated.close()
        cls.sockets.pop().close()
        logs = cls.mesh.logs()
        cls.mesh.close()
        if cls.download.error or not ended or cls.download.count < BLOCK_BYTES:
            raise AssertionError(f"the unrelated download: {cls.download.count} bytes, {cls.download.error}\n{logs[-8000:]}")
        print(f"unrelated download: {cls.download.count} bytes, all as sent")

    def tearDown(self):
        while len(self.sockets) > 1:  # the first is the unrelated download
            self.sockets.pop().close()
        self.assertTrue(self.download.is_alive(), f"the unrelated download ended: {self.download.error}")

    @classmethod
    def ask(cls, method, path, body=None):
        answer = cls.api.request(method, BASE + path, body)
        if answer.status not in (200, 201):
            raise AssertionError(f"{method} {path}: {answer}")
        return answer.data

    @classmethod
    def start_agent(cls, name, **more):
        agent = cls.ask("POST", "/agents", {"name": name, **more})["id"]
        secret = cls.ask("POST", "/tokens", {"type": "agent", "agentId": agent})["secret"]
        cls.mesh.start_agent(cls.here, agent, secret, f"{name}-agent")
        return agent

    @classmethod
    def allow(cls, agent):
        return cls.ask("POST", f"/agents/{agent}/policies",
                       {"targetHost": "127.0.0.1", "targetPort": 0, "protocol": "tcp"})["id"]

    @classmethod
    def connect(cls, port, target_port):
        """A stream, as soon as agent and client are there."""
        def attempt():
            with contextlib.suppress(OSError, SocksRefused):
                return socks_connect(port, "127.0.0.1", target_port)
            return None
        cls.sockets.append(wait_until(attempt, "the first stream"))
        return cls.sockets[-1]

    def client(self, **more):
        """A new token of the victim, and the port of a client that has it."""
        made = self.ask("POST", "/tokens", {"type": "client", "ownerUserId": self.user, **more})
        name = f"client-{self.id().rsplit('.', 1)[-1]}"
        port = self.mesh.start_client(self.here, self.home, made["secret"], name)
        self.addCleanup(lambda: self.mesh.programs.pop(name).stop())
        return made["id"], port

    def expect_cut(self, port, change):
        """An open stream ends and new ones are refused within 3 s of the change's end."""
        stream = self.connect(port, self.echo.port)
        self.assertTrue(answers(stream))
        opens = Opens(port, self.echo.port)
        self.addCleanup(opens.stop)
        wait_until(lambda: opens.good_count > 2, "opens")
        change()
        changed = time.monotonic()
        cut_s = time_of_end(stream) - changed
        wait_until(lambda: len(opens.refusals) > 2, "refusals")
        blocked_s = max(0.0, opens.last_good_at - changed)
        print(f"{type(self).__name__}.{self.id().rsplit('.', 1)[-1]}: open stream cut after {cut_s:.2f} s, "
              f"new ones refused after {blocked_s:.2f} s")
        self.assertLess(cut_s, K3_S)
        self.assertLess(blocked_s, K3_S)
        time.sleep(0.5)
        self.assertGreater(len(opens.refusals), 2, "refused for good")
        opens.stop()
        return opens

    # ---- what takes rights away ----

    def test_token_revoked_through_the_api(self):
        token, port = self.client()
        self.expect_cut(port, lambda: self.ask("POST", f"/tokens/{token}/revoke"))

    def test_token_revoked_by_a_command(self):
        token, port = self.client()
        self.expect_cut(port, lambda: self.mesh.admin("token", "revoke", token))

    def test_policy_deleted(self):
        _, port = self.client()
        opens = self.expect_cut(port, lambda: self.ask("DELETE", f"/agents/{self.home}/policies/{self.policy}"))
        self.assertEqual({reply for _, reply in opens.refusals}, {2}, "forbidden")
        type(self).policy = self.allow(self.home)
        self.assertTrue(answers(self.connect(port, self.echo.port)))

    def test_agent_disabled(self):
        _, port = self.client()
        self.expect_cut(port, lambda: self.ask("PATCH", f"/agents/{self.home}", {"enabled": False}))
        self.ask("PATCH", f"/agents/{self.home}", {"enabled": True})
        self.assertTrue(answers(self.connect(port, self.echo.port)))

    def test_user_disabled(self):
        _, port = self.client()
        self.expect_cut(port, lambda: self.ask("PATCH", f"/users/{self.user}", {"disabled": True}))
        self.ask("PATCH", f"/users/{self.user}", {"disabled": False})
        self.assertTrue(answers(self.connect(port, self.echo.port)))

    def test_scope_narrowed(self):
        token, port = self.client()
        opens = self.expect_cut(port, lambda: self.ask("PATCH", f"/tokens/{token}", {"scope": {"targetPorts": [1]}}))
        self.assertEqual({reply for _, reply in opens.refusals}, {2}, "the token itself is good")
        self.ask("PATCH", f"/tokens/{token}", {"scope": {"targetPorts": [self.echo.port]}})
        self.assertTrue(answers(self.connect(port, self.echo.port)), "the link stayed")

    def test_token_that_expires(self):
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=6)
        _, port = self.client(expiresAt=expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        stream = self.connect(port, self.echo.port)
        self.assertTrue(answers(stream))
        time_of_end(stream)
        late_s = time.time() - expires.timestamp()
        print(f"{type(self).__name__}: cut {late_s:.2f} s after expires_at")
        self.assertGreater(late_s, -0.1)
        self.assertLess(late_s, K3_S)
        with self.assertRaises(SocksRefused):
            socks_connect(port, "127.0.0.1", self.echo.port)

    def test_revoked_during_a_download_of_100_mb(self):
        length = 100 << 20
        source = Endless(seed=2, block_pause_s=0, length=length)
        self.addCleanup(source.close)
        token, port = self.client()
        download = Download(self.connect(port, source.port), 2, bytes_per_s=10 << 20)
        wait_until(lambda: download.count > 10 << 20, "the first 10 MiB")
        self.ask("POST", f"/tokens/{token}/revoke")
        revoked = time.monotonic()
        download.join(WAIT_S)
        self.assertIsNotNone(download.ended_at)
        print(f"{type(self).__name__}: download cut {download.ended_at - revoked:.2f} s after the revocation, "
              f"at {download.count >> 20} of 100 MiB")
        self.assertFalse(isinstance(download.error, AssertionError), download.error)
        self.assertLess(download.count, length)
        self.assertLess(download.ended_at - revoked, K3_S)

    # ---- a database that cannot be trusted ----

    def ready(self):
        return http_get(self.mesh.ports[self.here], "/health/ready")[0]

    def test_a_revision_that_goes_back_fails_closed(self):
        _, port = self.client()
        stream = self.connect(port, self.echo.port)
        wait_until(lambda: self.ready() == 200, "readiness")
        for damage, repair in (
            ("UPDATE authorization_revision SET revision = 1", "UPDATE authorization_revision SET revision = 1000000"),
            ("DELETE FROM authorization_revision",
             "INSERT INTO authorization_revision (id, revision, updated_at) VALUES (1, 2000000, '2027-01-01T00:00:00Z')"),
        ):
            self.mesh.sql(damage)
            wait_until(lambda: self.ready() == 503, f"readiness to fail after {damage}", 5)
            self.assertTrue(answers(stream), "what runs goes on")
            self.assertTrue(answers(self.connect(port, self.echo.port)), "each open is decided at the source")
            # Without a step of the revision, which nobody could believe now.
            self.mesh.sql("UPDATE agent_policies SET target_port = 1 WHERE agent_id = '" + self.home + "'")
            with self.assertRaises(SocksRefused) as refused:
                socks_connect(port, "127.0.0.1", self.echo.port)
            self.assertEqual(refused.exception.reply, 2, "no allow is kept meanwhile")
            self.mesh.sql("UPDATE agent_policies SET target_port = 0 WHERE agent_id = '" + self.home + "'")
            self.mesh.sql(repair)
            wait_until(lambda: self.ready() == 200, "readiness")
            self.assertTrue(answers(self.connect(port, self.echo.port)))
        self.assertTrue(answers(stream))


class OnSqlite(Rights, unittest.TestCase):
    make = SqliteServer


class StreamsThatOutliveTheirRights(Rights, unittest.TestCase):
    """With revoke_open_streams off only what is new is refused."""

    @staticmethod
    def make():
        return SqliteServer("""  authorization_cache:
    revoke_open_streams: false
""")

    def expect_cut(self, port, change):
        stream = self.connect(port, self.echo.port)
        change()
        time.sleep(K3_S)
        self.assertTrue(answers(stream))
        with self.assertRaises(SocksRefused):
            socks_connect(port, "127.0.0.1", self.echo.port)

    test_policy_deleted = None
    test_agent_disabled = None  # which ends the agent's link, and all streams with it
    test_user_disabled = None
    test_scope_narrowed = None
    test_token_that_expires = None
    test_token_revoked_by_a_command = None
    test_revoked_during_a_download_of_100_mb = None
    test_a_revision_that_goes_back_fails_closed = None


class OnMysql(Rights, unittest.TestCase):
    make = TwoServers

    def outlast(self, fail, mend):
        """The database goes and comes back while opens are made."""
        _, port = self.client()
        stream = self.connect(port, self.echo.port)
        opens = Opens(port, self.echo.port)
        self.addCleanup(opens.stop)
        wait_until(lambda: opens.good_count > 20, "opens")
        gone = time.monotonic()
        fail()
        while time.monotonic() < gone + 2 * CACHED_S:
            self.assertTrue(answers(stream), "what runs goes on")
            time.sleep(0.2)
        # Begun before the end of the 5 s, so much later only what was decided from the cache.
        cached_s = opens.last_good_at - gone
        wait_until(lambda: opens.refusals, "refusals")
        replies = {reply for _, reply in opens.refusals}
        self.assertEqual(self.ready(), 503)
        before = opens.good_count
        mend()
        mended = time.monotonic()
        wait_until(lambda: opens.good_count > before + 20, "opens again")
        wait_until(lambda: self.ready() == 200, "readiness")
        print(f"{self.id().rsplit('.', 1)[-1]}: opens from the cache for {cached_s:.2f} s, then replies {replies}; "
              f"again {opens.last_good_at - mended:.2f} s after the database came back")
        self.assertLess(cached_s, CACHED_S + 0.5)
        self.assertLessEqual(replies, {1, 6}, "internal_error or timeout, never an allow and never forbidden")
        self.assertIn(1, replies)
        self.assertTrue(answers(stream))
        opens.stop()

    def test_a_database_that_hangs(self):
        process = self.mesh.db.process
        self.outlast(lambda: process.send_signal(signal.SIGSTOP), lambda: process.send_signal(signal.SIGCONT))

    def test_a_database_that_is_killed(self):
        self.outlast(self.mesh.db.kill, self.mesh.db.start)


if __name__ == "__main__":
    unittest.main(verbosity=2)
