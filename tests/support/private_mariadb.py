#!/usr/bin/env python3
"""A MariaDB server of a test's own: temporary folder, port and socket; gone with the test.

    private_mariadb.py run [--] COMMAND...

runs COMMAND with these variables, unless TUNNELMESH_TEST_MYSQL_DSN is set already:

    TUNNELMESH_TEST_MYSQL_DSN       go-sql-driver form; the user may create databases
    TUNNELMESH_TEST_MYSQL_CA        the authority of the server's certificate, which names
                                    127.0.0.1 and not localhost
    TUNNELMESH_TEST_MYSQL_OTHER_CA  an authority that has nothing to do with it

Where no MariaDB is installed COMMAND runs without them; the tests then say "deferred" and
fail, unless TUNNELMESH_ALLOW_DEFERRED=1. Exit: that of COMMAND; 1 when the server does not
start.

For Python tests: `with PrivateMariadb() as db: db.dsn(db.create_database())`.
"""

import atexit
import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from harness import free_port  # noqa: E402

START_S = 60.0  # it takes one second
PREFIX = "tmesh-database-"
RAM = "/dev/shm"
RAM_FREE_MIN_BYTES = 512 * 1024 * 1024
SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
PR_SET_PDEATHSIG = 1


def is_available():
    return all(shutil.which(name, path=SBIN) for name in ("mariadbd", "mariadb-install-db", "mariadb"))


def die_with_parent():
    """Between fork and exec of a child that must not outlive this process, even if that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def scratch_folder():
    """In memory where there is room: creating a database syncs hundreds of files. The folder is
    locked while its owner lives, so that those of killed tests can be told and removed."""
    base = tempfile.gettempdir()
    with contextlib.suppress(OSError):
        room = os.statvfs(RAM)
        if os.access(RAM, os.W_OK) and room.f_bavail * room.f_frsize >= RAM_FREE_MIN_BYTES:
            base = RAM
    for name in os.listdir(base):
        if name.startswith(PREFIX):
            with contextlib.suppress(OSError), open(os.path.join(base, name, "lock"), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(os.path.join(base, name), ignore_errors=True)
    # Locked before it has a name that a sweep looks at.
    hidden = tempfile.mkdtemp(prefix="." + PREFIX, dir=base)
    lock = open(os.path.join(hidden, "lock"), "wb")  # noqa: SIM115
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = os.path.join(base, os.path.basename(hidden)[1:])
    os.rename(hidden, folder)
    return folder, lock


class PrivateMariadb:
    """Started by the constructor. `tls`: the server also takes TLS, with a certificate for
    127.0.0.1 signed by the authority in `ca`; `other_ca` is the wrong one."""

    user = "tmesh_test"
    extra_options = ()  # for mariadbd; a test with needs of its own makes a class of its own

    def __init__(self, tls=False):
        self.folder, self._lock = scratch_folder()
        self.process = None
        atexit.register(self.stop)
        self.port = free_port()
        self.password = "pw_" + secrets.token_hex(8)
        self.ca = os.path.join(self.folder, "ca", "ca.pem")
        self.other_ca = os.path.join(self.folder, "other", "ca.pem")
        self._tls_options = self._make_certificates() if tls else []
        # Its own: a server that starts removes everything that looks like a temporary table from
        # there, also those that another one is using, which then crashes.
        os.mkdir(self._path("tmp"))
        self._install()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _as_root(self):
        return ["--user=root"] if os.geteuid() == 0 else []

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _make_certificates(self):
        for name in ("ca", "other"):
            subprocess.run([os.path.join(HERE, "make_ca.sh"), self._path(name), "IP:127.0.0.1,DNS:mariadb.test"],
                           check=True, timeout=START_S, stdin=subprocess.DEVNULL)
        return [f"--ssl-ca={self.ca}", f"--ssl-cert={self._path('ca/server.pem')}",
                f"--ssl-key={self._path('ca/server-key.pem')}"]

    def _install(self):
        done = subprocess.run(
            [shutil.which("mariadb-install-db", path=SBIN), "--no-defaults", *self._as_root(),
             f"--datadir={self._path('data')}", f"--tmpdir={self._path('tmp')}",
             "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
             "--innodb-log-file-size=4M"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")
        # A user with a password: without one no test would notice it in a message.
        with open(self._path("init.sql"), "w", encoding="ascii") as f:
            f.write(f"CREATE OR REPLACE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
                    f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
                    "CREATE DATABASE IF NOT EXISTS tm;\n")

    def start(self):
        """Again after kill(): same port, same data."""
        self.log = open(self._path("server.log"), "ab")
        self.process = subprocess.Popen(
            [shutil.which("mariadbd", path=SBIN), "--no-defaults", *self._as_root(),
             f"--datadir={self._path('data')}", f"--tmpdir={self._path('tmp')}",
             f"--socket={self._path('socket')}", f"--pid-file={self._path('pid')}", f"--port={self.port}",
             "--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-buffer-pool-size=32M",
             "--innodb-log-file-size=4M", "--performance-schema=off",
             f"--init-file={self._path('init.sql')}", *self._tls_options, *self.extra_options],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=die_with_parent)
        end = time.monotonic() + START_S
        while self._client("SELECT 1").returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self._path("server.log"), encoding="utf-8", errors="replace") as f:
                    text = f.read()
                self.stop()
                raise AssertionError(f"mariadbd did not start:\n{text[-4000:]}")
            time.sleep(0.05)

    def _client(self, text, database="tm"):
        return subprocess.run(
            [shutil.which("mariadb", path=SBIN), "--no-defaults", "--protocol=TCP", "--host=127.0.0.1",
             f"--port={self.port}", f"--user={self.user}", "--batch", "--skip-column-names",
             f"--database={database}", "--execute", text],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_S, check=False,
            env={**os.environ, "MYSQL_PWD": self.password})

    def sql(self, text, database="tm"):
        """The rows as text, columns divided by tabs."""
        done = self._client(text, database)
        if done.returncode != 0:
            raise AssertionError(f"{text}: {done.stderr}")
        return done.stdout

    def create_database(self):
        name = "tm_" + secrets.token_hex(8)
        self.sql(f"CREATE DATABASE {name}")
        return name

    def dsn(self, database="tm", host="127.0.0.1", port=None):
        return f"{self.user}:{self.password}@tcp({host}:{port or self.port})/{database}"

    def tls_only_dsn(self, database="tm"):
        """Of a user who is not let in without TLS."""
        self.sql(f"CREATE OR REPLACE USER tls_only@'%' IDENTIFIED BY '{self.password}' REQUIRE SSL;"
                 "GRANT ALL ON *.* TO tls_only@'%'")
        return f"tls_only:{self.password}@tcp(127.0.0.1:{self.port})/{database}"

    def environment(self):
        env = {"TUNNELMESH_TEST_MYSQL_DSN": self.dsn()}
        if self._tls_options:
            env |= {"TUNNELMESH_TEST_MYSQL_CA": self.ca, "TUNNELMESH_TEST_MYSQL_OTHER_CA": self.other_ca}
        return env

    def kill(self):
        """As a power cut; start() brings it back."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            self.log.close()

    def stop(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def run(command):
    if os.environ.get("TUNNELMESH_TEST_MYSQL_DSN") or not is_available():
        os.execvp(command[0], command)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    with PrivateMariadb(tls=True) as db:
        child = subprocess.Popen(command, env={**os.environ, **db.environment()}, preexec_fn=die_with_parent)
        try:
            code = child.wait()
        finally:
            child.kill()
            child.wait()
    return code if code >= 0 else 128 - code


def main():
    command = sys.argv[2:]
    if command[:1] == ["--"]:
        del command[0]
    if sys.argv[1:2] != ["run"] or not command:
        print(__doc__, file=sys.stderr)
        return 2
    return run(command)


if __name__ == "__main__":
    sys.exit(main())
