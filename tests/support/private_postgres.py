"""A PostgreSQL server of a test's own: temporary folder, port and socket; gone with the test.

It takes TLS, with a certificate for `certified_name` signed by the authority in `ca`, and
refuses to run as root, so root starts it as nobody.
"""

import glob
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time

from harness import free_port
from private_mariadb import HERE, START_S, die_with_parent, scratch_folder


def server_program(name):
    """Debian keeps the programs of the server out of the path."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)]
    if found[-1] is None:
        raise AssertionError(f"{name} is not installed: deploy/setup.sh test brings it")
    return found[-1]


class PrivatePostgres:
    """Started by the constructor; stop() ends it."""

    user = "tmesh_test"
    certified_name = "db.postgres.test"

    def __init__(self):
        self.folder, self._lock = scratch_folder()
        self.process = None
        self.port = free_port()
        self.password = "pw_" + secrets.token_hex(8)
        self._data = os.path.join(self.folder, "data")
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        try:
            self._make_files()
            self._start()
        except BaseException:
            self.stop()
            raise

    def _make_files(self):
        certificates = os.path.join(self.folder, "ca")
        subprocess.run([os.path.join(HERE, "make_ca.sh"), certificates, f"DNS:{self.certified_name}"], check=True,
                       timeout=START_S, stdin=subprocess.DEVNULL)
        self.ca = os.path.join(certificates, "ca.pem")
        key = os.path.join(certificates, "server-key.pem")
        password = os.path.join(self.folder, "password")
        with open(password, "w", encoding="ascii") as f:
            f.write(self.password + "\n")
        for path in (self.folder, key, password):
            os.chown(path, self._account.pw_uid, self._account.pw_gid)
        os.chmod(key, 0o600)
        self._run("initdb", "-D", self._data, "-U", self.user, "--auth=scram-sha-256", f"--pwfile={password}",
                  "--encoding=UTF8", "--locale=C", "--no-sync")
        with open(os.path.join(self._data, "postgresql.auto.conf"), "a", encoding="ascii") as f:
            f.write(f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{self.folder}'\n"
                    f"ssl = on\nssl_cert_file = '{certificates}/server.pem'\nssl_key_file = '{key}'\n"
                    "fsync = off\nshared_buffers = 8MB\nautovacuum = off\n")

    def _as_account(self):
        account = {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return {"cwd": self.folder, "stdin": subprocess.DEVNULL, **(account if os.geteuid() == 0 else {})}

    def _run(self, name, *arguments):
        done = subprocess.run([server_program(name), *arguments], capture_output=True, text=True, timeout=START_S,
                              check=False, **self._as_account())
        if done.returncode != 0:
            raise AssertionError(f"{name} failed:\n{done.stdout}{done.stderr}")

    def _start(self):
        log_path = os.path.join(self.folder, "server.log")
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen([server_program("postgres"), "-D", self._data], stdout=log, stderr=log,
                                            preexec_fn=die_with_parent, **self._as_account())
        # Its last line says what became of the start.
        status = os.path.join(self._data, "postmaster.pid")
        end = time.monotonic() + START_S
        while True:
            if os.path.exists(status):
                with open(status, encoding="ascii") as f:
                    if f.read().rstrip().endswith("ready"):
                        return
            if self.process.poll() is not None or time.monotonic() > end:
                with open(log_path, encoding="utf-8", errors="replace") as f:
                    raise AssertionError(f"postgres did not start:\n{f.read()[-4000:]}")
            time.sleep(0.02)

    def stop(self):
        if self.process is not None:
            # At once, without a checkpoint; killed it would leave a segment of shared memory.
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()
