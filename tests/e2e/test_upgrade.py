"""docs/operations/upgrade.md, step by step: every command of it is run as it stands there, with
the real programs, on a version 8 database of each engine, and streams work after every step (requirement I2). Only
for mariadb-dump and the way back the tables are copied within the server."""

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

from harness import (BIN, WAIT_S, EchoTarget, Mesh, Program, SocksRefused, can_connect, closed_port, socks_connect,
                     wait_until)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
GUIDE = os.path.join(ROOT, "docs", "operations", "upgrade.md")
FIXTURES = os.path.join(ROOT, "tests", "cpp", "storage", "fixtures")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import private_mariadb  # noqa: E402

BLOCK = re.compile(r"(?:<!-- (sqlite|mysql) -->\n)?```(sh|text)\n(.*?)```\n|^(##+ [^\n]*)$", re.S | re.M)
OFF = [f"--{{0}}.capabilities.{name}=false" for name in ("open_result", "flow_control", "fair_writer")]
# What quickstart made, to be put into a database that deployed servers left.
TABLES = ("users", "agents", "agent_policies", "service_tokens")


def blocks(engine):
    """Heading, kind and text of every fenced block for this engine, in order."""
    with open(GUIDE, encoding="utf-8") as f:
        text = f.read()
    heading = ""
    found = []
    for match in BLOCK.finditer(text):
        only, kind, body, title = match.groups()
        if title:
            heading = title.lstrip("# ")
        elif only in (None, engine):
            found.append((heading, kind, body))
    return found


def fixture(name):
    with open(os.path.join(FIXTURES, name), encoding="utf-8") as f:
        return f.read()


class Sqlite:
    engine = "sqlite"

    def __init__(self, folder):
        self.path = os.path.join(folder, "tunnelmesh.db")

    def settings(self):
        return f'storage:\n  driver: sqlite\n  sqlite:\n    path: "{self.path}"\n'

    def load(self, rows_of_quickstart):
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            for name in ("v0008_schema", "v0008_rows", "v0008_rows_sqlite"):
                db.executescript(fixture(f"{name}.sql"))
            for table, rows in rows_of_quickstart.items():
                for row in rows:
                    db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
            db.commit()

    def run(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as db:
            rows = db.execute(sql).fetchall()
            db.commit()
            return rows

    def dump(self):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as db:
            return [line for line in db.iterdump() if "schema_meta" not in line]

    def environment(self):
        return {}

    def close(self):
        pass


class Mysql:
    engine = "mysql"

    def __init__(self, folder, server=private_mariadb.PrivateMariadb):
        self.server = server()
        self.server.sql("CREATE DATABASE tunnelmesh CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        self.folder = folder

    def settings(self):
        return "mode: cluster\nstorage:\n  driver: mysql\n"

    def environment(self):
        return {"TUNNELMESH_STORAGE_MYSQL_DSN": self.server.dsn("tunnelmesh")}

    def run(self, sql):
        text = self.server.sql("SET NAMES utf8mb4; " + sql, "tunnelmesh")
        return [tuple(line.split("\t")) for line in text.splitlines()]

    def load(self, rows_of_quickstart):
        for name in ("v0008_schema", "v0008_rows", "v0008_rows_mysql"):
            self.run(fixture(f"{name}.sql"))

        def literal(value):
            if value is None:
                return "NULL"
            return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
        for table, rows in rows_of_quickstart.items():
            for row in rows:
                self.run(f"INSERT INTO {table} VALUES ({','.join(map(literal, row))})")

    def dump(self):
        tables = [row[0] for row in self.run("SHOW TABLES") if row[0] != "schema_meta"]
        return [(table, self.run(f"SELECT * FROM {table}")) for table in tables]

    def close(self):
        self.server.stop()


class Steps:
    """Runs the blocks of the guide in a folder with server.yaml, agent.yaml and client.yaml."""

    def __init__(self, test, make_database):
        self.test = test
        self.folder = tempfile.mkdtemp(prefix="tmesh-upgrade-")
        test.addCleanup(shutil.rmtree, self.folder, True)
        self.mesh = Mesh(start=())
        test.addCleanup(shutil.rmtree, self.mesh.folder, True)
        self.programs = {}
        test.addCleanup(self.stop_all)
        self.database = make_database(self.folder)
        test.addCleanup(self.database.close)
        self.prepare()
        self.echo = EchoTarget()
        test.addCleanup(self.echo.close)
        self.output = ""

    def prepare(self):
        made = os.path.join(self.mesh.config, "tunnelmesh.db")
        with contextlib.closing(sqlite3.connect(made)) as db:
            rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        self.database.load(rows)
        text = re.sub(r"(?m)^(storage|mode):.*\n(?:[ ]+.*\n)*", "", self.mesh.read("server"))
        with open(os.path.join(self.folder, "server.yaml"), "w", encoding="utf-8") as f:
            f.write(self.database.settings() + text)
        for name in ("agent", "client"):
            shutil.copy(self.mesh.path(name), self.folder)

    def env(self):
        return {**os.environ, **self.database.environment(), "PATH": BIN + os.pathsep + os.environ["PATH"]}

    def start(self, name, arguments):
        if name in self.programs:
            self.test.assertEqual(self.programs[name].stop(), 0, self.programs[name].text())
        self.programs[name] = Program(name, arguments, self.folder, {**self.database.environment()})
        port = {"server": self.mesh.http_port, "client": self.mesh.socks_port}.get(name)

        def is_up():
            self.test.assertTrue(self.programs[name].alive(), self.programs[name].text())
            return port is None or can_connect(port)
        os.chdir(self.folder)
        wait_until(is_up, f"{name} to start")

    def stop(self, name):
        if name in self.programs:
            self.programs.pop(name).stop()

    def stop_all(self):
        for name in ("client", "agent", "server"):
            self.stop(name)

    def line(self, line):
        line = line.replace("127.0.0.1:8080", f"127.0.0.1:{self.mesh.http_port}")
        words = line.split()
        if words[1:2] == ["run"]:
            arguments = [os.path.join(self.folder, w) if w.endswith(".yaml") else w for w in words[1:]]
            self.start(words[0].removeprefix("tunnelmesh-"), arguments)
            self.streams_work()
            return
        if words[0] in ("mariadb-dump", "mariadb"):
            self.backup_of_mysql(words[0])
            return
        if words[0] == "curl":
            wait_until(lambda: subprocess.run(line.split(), capture_output=True, check=False).returncode == 0, line)
            return
        done = subprocess.run(["sh", "-c", line], cwd=self.folder, env=self.env(), capture_output=True, text=True,
                              timeout=WAIT_S * 2, check=False)
        self.output += done.stdout
        self.test.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")

    def backup_of_mysql(self, program):
        """Tables copied within the server stand in for a dump and for the way back."""
        server = self.database.server
        if program == "mariadb-dump":
            self.saved = {row[0]: self.database.run(f"SHOW CREATE TABLE {row[0]}")[0][1]
                          for row in self.database.run("SHOW TABLES")}
            server.sql("CREATE DATABASE saved CHARACTER SET utf8mb4")
            for table in self.saved:
                server.sql(f"CREATE TABLE saved.{table} LIKE tunnelmesh.{table}; "
                           f"INSERT INTO saved.{table} SELECT * FROM tunnelmesh.{table}")
            return
        server.sql("DROP DATABASE tunnelmesh; CREATE DATABASE tunnelmesh CHARACTER SET utf8mb4")
        for table in self.saved:
            server.sql(f"RENAME TABLE saved.{table} TO tunnelmesh.{table}")

    def streams_work(self):
        """As soon as the three programs are there: an echo through the whole path."""
        if len(self.programs) < 3:
            return

        def works():
            with contextlib.suppress(OSError, SocksRefused):
                with socks_connect(self.mesh.socks_port, "127.0.0.1", self.echo.port) as s:
                    s.sendall(b"upgrade")
                    return s.recv(7) == b"upgrade"
            return False
        wait_until(works, "a stream through the mesh")

    def run(self, *headings):
        """All blocks under headings that begin with one of these."""
        ran = 0
        for heading, kind, body in blocks(self.database.engine):
            if not heading.startswith(headings):
                continue
            ran += 1
            if kind == "sh":
                self.output = ""
                for line in body.splitlines():
                    self.line(line)
            else:
                for line in body.splitlines():
                    self.test.assertIn(line, self.output)
        self.test.assertGreater(ran, 0, headings)

    def old_programs(self):
        """Programs that know none of the new abilities stand in for old agents and clients; the
        deployed ones in every mix are the business of test_fleet_mixes."""
        for name in ("agent", "client"):
            path = os.path.join(self.folder, f"{name}.yaml")
            self.start(name, ["run", "--config", path, *[flag.format(name) for flag in OFF]])


def inserts(lines):
    return [line for line in lines if line.startswith("INSERT")]


class Upgrade:
    make_database = None

    def setUp(self):
        self.steps = Steps(self, type(self).make_database)

    def version(self):
        return str(self.steps.database.run("SELECT version FROM schema_meta")[0][0])

    def refusal(self):
        """The SOCKS5 reply for a port that nobody listens on."""
        try:
            socks_connect(self.steps.mesh.socks_port, "127.0.0.1", closed_port()).close()
        except SocksRefused as refused:
            return refused.reply
        except OSError:
            return None
        return 0

    def test_upgrade_and_rollback_as_the_guide_says(self):
        steps, database = self.steps, self.steps.database
        self.assertEqual(self.version(), "8")
        before = database.dump()
        steps.run("1.")
        self.assertEqual(self.version(), "8")
        self.assertEqual(database.dump(), before, "a dry run changes nothing")

        steps.run("2.")
        self.assertEqual(self.version(), "9")
        kept = [line for line in database.dump() if "authorization_revision" not in line and
                line[0] != "authorization_revision"]
        if database.engine == "sqlite":
            self.assertEqual(inserts(kept), inserts(before))
        else:
            self.assertEqual(kept, before)

        steps.old_programs()
        steps.run("3.", "4.")
        self.assertIn(self.refusal(), (0, None, 1), "an old client and agent say success first, or do not know")
        steps.run("5.", "6.")
        self.assertEqual(self.refusal(), 5, "strict: the cause arrives")
        steps.run("7.", "8.")
        self.assertEqual(self.refusal(), 5)

        steps.run("An ability off")
        steps.streams_work()
        steps.run("The cache off", "One link per agent")
        self.assertEqual(self.refusal(), 5)

        self.an_older_server_reads_and_writes()
        steps.stop_all()
        self.upgraded_again_the_revision_goes_on()
        steps.run("The backup")
        self.assertEqual(self.version(), "8")
        self.assertEqual(database.dump(), before, "the backup is what there was")

    def an_older_server_reads_and_writes(self):
        """With the statements of version 8, every column named; ours still likes what it wrote."""
        database = self.steps.database
        database.run("INSERT INTO users VALUES ('user-old', 'written-by-old', 'user', 'x', 0, NULL, "
                     "'2026-08-01T00:00:00Z', '2026-08-01T00:00:00Z')")
        database.run("UPDATE agent_connection_leases SET epoch = 5, connection_epoch = 6 "
                     "WHERE connection_id = 'conn-1'")
        self.assertEqual(len(database.run("SELECT id, username, role, password_hash, disabled, deleted_at, created_at, "
                                          "updated_at FROM users WHERE username = 'written-by-old'")), 1)
        self.steps.line("tunnelmesh-server db check --config server.yaml")
        self.steps.line("tunnelmesh-server user show written-by-old --config server.yaml")

    def upgraded_again_the_revision_goes_on(self):
        database = self.steps.database
        revision = database.run("SELECT revision FROM authorization_revision")
        database.run("UPDATE schema_meta SET version = 8")
        self.steps.line("tunnelmesh-server migrate --config server.yaml")
        self.assertEqual(database.run("SELECT revision FROM authorization_revision"), revision)


class UpgradeOnSqlite(Upgrade, unittest.TestCase):
    make_database = Sqlite


@unittest.skipUnless(private_mariadb.is_available() or os.environ.get("TUNNELMESH_ALLOW_DEFERRED") != "1",
                     "deferred: MariaDB is not installed")
class UpgradeOnMysql(Upgrade, unittest.TestCase):
    make_database = Mysql


class Guide(unittest.TestCase):
    def test_every_command_of_the_guide_is_run(self):
        wanted = ("1.", "2.", "3.", "4.", "5.", "6.", "7.", "8.", "An ability off", "The cache off",
                  "One link per agent", "The backup")
        for engine in ("sqlite", "mysql"):
            headings = {heading for heading, _, _ in blocks(engine)}
            self.assertTrue(all(h.startswith(wanted) for h in headings), headings)
            self.assertEqual(len(headings), len(wanted))


if __name__ == "__main__":
    unittest.main()
