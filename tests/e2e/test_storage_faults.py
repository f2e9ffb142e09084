"""The real server program and its database under faults: killed at random moments while it migrates, a
database that is killed, full or read-only while rights change. What was confirmed stays, the rest is
there whole or not at all, and the revision counts exactly the changes that are there."""

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import BIN, WAIT_S
from test_upgrade import Mysql, Sqlite

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import private_mariadb  # noqa: E402

SERVER = os.path.join(BIN, "tunnelmesh-server")
SEED = int(os.environ.get("TMESH_SEED", random.randrange(1 << 30)))


def setUpModule():
    print(f"TMESH_SEED={SEED}", file=sys.stderr)
    random.seed(SEED)


class Faults(unittest.TestCase):
    def make(self, kind):
        folder = tempfile.mkdtemp(prefix="tmesh-faults-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.config = os.path.join(folder, "server.yaml")
        self.database = kind(folder)
        self.addCleanup(self.database.close)
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(self.database.settings())
        return self.database

    def need_mariadb(self):
        if not private_mariadb.is_available():
            if os.environ.get("TUNNELMESH_ALLOW_DEFERRED") == "1":
                self.skipTest("deferred: MariaDB is not installed")
            self.fail("deferred: MariaDB is not installed; TUNNELMESH_ALLOW_DEFERRED=1 accepts that")

    def command(self, *arguments):
        return [SERVER, *arguments, "--config", self.config]

    def env(self):
        return {**os.environ, **self.database.environment()}

    def admin(self, *arguments):
        return subprocess.run(self.command(*arguments), env=self.env(), capture_output=True, text=True,
                              timeout=WAIT_S * 2, check=False)

    def must(self, *arguments):
        done = self.admin(*arguments)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}{done.stderr}")
        return done.stdout

    def number(self, sql):
        return int(self.database.run(sql)[0][0])

    def killed_migrations(self, kind, runs):
        """Each run on a fresh version 8 database, killed a little later than the one before."""
        whole_s = None
        for run in range(runs):
            database = self.make(kind) if run == 0 else self.fresh(kind)
            database.load({})
            before = rows_of(database)
            delay_s = 0 if whole_s is None else random.random() * whole_s
            process = subprocess.Popen(self.command("migrate"), env=self.env(), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            if whole_s is None:
                begin = time.monotonic()
                process.wait(WAIT_S)
                whole_s = time.monotonic() - begin
            else:
                time.sleep(delay_s)
                process.kill()
                process.wait(WAIT_S)
            self.assertIn(self.number("SELECT version FROM schema_meta"), (8, 9))
            self.assertEqual(rows_of(database), before, f"run {run}")
            self.must("migrate")
            self.assertEqual(self.number("SELECT version FROM schema_meta"), 9)
            self.assertEqual(self.number("SELECT revision FROM authorization_revision"), 1)
            self.assertEqual(rows_of(database), before, f"run {run}")
            self.assertEqual(self.admin("db", "check").returncode, 0)

    def fresh(self, kind):
        if kind is Mysql:
            self.database.server.sql("DROP DATABASE tunnelmesh; CREATE DATABASE tunnelmesh CHARACTER SET utf8mb4")
        else:
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self.database.path + suffix)
        return self.database

    def test_a_migration_killed_at_random_moments_on_sqlite(self):
        self.killed_migrations(Sqlite, 12)

    def test_a_migration_killed_at_random_moments_on_mysql(self):
        self.need_mariadb()
        self.killed_migrations(Mysql, 12)

    def writers(self, count):
        """Threads that create and revoke tokens with the program until told to stop; gives the ids
        that were confirmed as created, and as revoked."""
        created, revoked = [], []
        stop = threading.Event()

        def work():
            while not stop.is_set():
                done = self.admin("token", "create", "--type", "client", "--owner", "owner", "--json")
                if done.returncode != 0:
                    continue
                token = json.loads(done.stdout)["id"]
                created.append(token)
                if self.admin("token", "revoke", token).returncode == 0:
                    revoked.append(token)
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()

        def end():
            stop.set()
            for thread in threads:
                thread.join()
            return created, revoked
        return end

    def expect_nothing_lost(self, created, revoked, first_revision):
        there = {row[0]: row[1] for row in self.database.run(
            "SELECT id, CASE WHEN revoked_at IS NULL THEN 'live' ELSE 'revoked' END FROM service_tokens")}
        self.assertLessEqual(set(created), set(there))
        self.assertEqual([t for t in revoked if there[t] != "revoked"], [])
        changes = len(there) + sum(1 for state in there.values() if state == "revoked")
        self.assertEqual(self.number("SELECT revision FROM authorization_revision") - first_revision, changes)
        entries = self.number("SELECT COUNT(*) FROM audit_logs WHERE action IN ('token.create', 'token.revoke')")
        self.assertEqual(entries, changes, "each change has its audit entry")

    def test_a_database_killed_in_the_middle_of_changes(self):
        self.need_mariadb()
        database = self.make(Mysql)
        self.must("migrate")
        self.must("user", "create", "owner")
        first = self.number("SELECT revision FROM authorization_revision")
        for _ in range(3):
            end = self.writers(2)
            time.sleep(0.4 + random.random() * 0.4)
            database.server.kill()
            time.sleep(0.1)
            database.server.start()
            created, revoked = end()
            self.expect_nothing_lost(created, revoked, first)
            self.assertEqual(self.admin("db", "check").returncode, 0)
        self.must("token", "create", "--type", "client", "--owner", "owner")

    def test_a_database_that_becomes_read_only(self):
        self.need_mariadb()
        database = self.make(Mysql)
        self.must("migrate")
        self.must("user", "create", "owner")
        # A user like that of a deployed server: everything, but in its own database only.
        database.server.sql("CREATE USER 'app'@'%' IDENTIFIED BY 'app-pw'; GRANT ALL ON tunnelmesh.* TO 'app'@'%'")
        dsn = f"app:app-pw@tcp(127.0.0.1:{database.server.port})/tunnelmesh"
        database.environment = lambda: {"TUNNELMESH_STORAGE_MYSQL_DSN": dsn}
        token = json.loads(self.must("token", "create", "--type", "client", "--owner", "owner", "--json"))["id"]
        before = database.dump()
        database.server.sql("SET GLOBAL read_only = 1")
        for arguments in (("token", "revoke", token), ("user", "create", "second"), ("user", "disable", "owner")):
            done = self.admin(*arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertNotIn("app-pw", done.stderr)
        self.must("token", "list")
        self.assertEqual(self.admin("db", "check").returncode, 0)
        self.assertEqual(database.dump(), before)
        database.server.sql("SET GLOBAL read_only = 0")
        self.must("token", "revoke", token)

    def fill(self, database):
        """A large table takes whole extents, so small ones take the single pages that are left."""
        with contextlib.suppress(AssertionError):  # "The table is full", of CREATE TABLE at last
            for table in range(100):
                database.run(f"CREATE TABLE ballast_{table} (id INT AUTO_INCREMENT PRIMARY KEY, x VARBINARY(7000))")
                with contextlib.suppress(AssertionError):
                    for rows in (20, 1):
                        for _ in range(200):
                            database.run(f"INSERT INTO ballast_{table} (x) VALUES "
                                         + ",".join(["(REPEAT('x', 7000))"] * rows))

    def test_a_full_database(self):
        """On MySQL; SQLite: fault_contract_test.cpp."""
        self.need_mariadb()
        database = self.make(lambda folder: Mysql(folder, SmallMariadb))
        self.must("migrate")
        self.must("user", "create", "owner")
        self.must("token", "create", "--type", "client", "--owner", "owner")
        first = self.number("SELECT revision FROM authorization_revision") - 1
        self.fill(database)
        for _ in range(300):
            done = self.admin("token", "create", "--type", "client", "--owner", "owner")
            if done.returncode != 0:
                break
        self.assertEqual(done.returncode, 1, "the database took everything")
        self.assertIn("full", done.stderr)
        self.expect_nothing_lost([], [], first)
        database.server.kill()
        database.server.extra_options = SmallMariadb.extra_options[:1]
        database.server.start()
        self.must("token", "create", "--type", "client", "--owner", "owner")
        self.expect_nothing_lost([], [], first)


class SmallMariadb(private_mariadb.PrivateMariadb):
    """All tables in one file, which may not grow beyond a few MiB."""

    extra_options = ("--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:16M")


def rows_of(database):
    """Of version 8's tables, whatever else there is."""
    if isinstance(database, Sqlite):
        with contextlib.closing(sqlite3.connect(database.path, timeout=30)) as db:
            return [line for line in db.iterdump()
                    if line.startswith("INSERT") and "schema_meta" not in line and "authorization_revision" not in line]
    return [(table, rows) for table, rows in database.dump() if table != "authorization_revision"]


if __name__ == "__main__":
    unittest.main()
