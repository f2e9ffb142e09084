"""Programs that people use, through the entries: ssh, git, nc, iperf3, mariadb, psql, wget."""

import hashlib
import http.server
import json
import os
import pwd
import shutil
import subprocess
import sys
import threading
import unittest

from harness import BIN, WAIT_S, EchoTarget, MeshTest, Target, can_connect, free_port, is_listening, started, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from private_mariadb import SBIN, PrivateMariadb  # noqa: E402
from private_postgres import PrivatePostgres  # noqa: E402

LIMIT_S = WAIT_S * 2
DATA = os.urandom(1 << 20) * 8


def program(name):
    path = shutil.which(name, path=SBIN)
    if path is None:
        raise AssertionError(f"{name} is not installed: deploy/setup.sh test brings it")
    return path


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class RealClients(MeshTest):
    @classmethod
    def setUpClass(cls):
        cls.ssh_port, cls.iperf_port = free_port(), free_port()
        cls.database = PrivateMariadb()
        cls.addClassCleanup(cls.database.stop)
        cls.postgres = PrivatePostgres()
        cls.addClassCleanup(cls.postgres.stop)
        cls.echo = EchoTarget()
        cls.addClassCleanup(cls.echo.close)
        cls.files = f"/tmp/tmesh-files-{os.getpid()}-{cls.ssh_port}"
        os.makedirs(cls.files)
        cls.addClassCleanup(shutil.rmtree, cls.files, True)
        with open(os.path.join(cls.files, "data"), "wb") as f:
            f.write(DATA)
        cls.web = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *a: QuietFiles(*a, directory=cls.files))
        threading.Thread(target=cls.web.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.web.server_close)
        cls.addClassCleanup(cls.web.shutdown)
        cls.web_port = cls.web.server_address[1]
        cls.unix = f"{cls.files}.sock"

        def to(port):
            return {"target_host": "127.0.0.1", "target_port": port}

        cls.options = {"tunnels": [
            {"protocol": "tcp", "name": "echo", **to(cls.echo.port)},
            {"protocol": "tcp", "name": "echo-unix", "listen": f"unix:{cls.unix}", **to(cls.echo.port)},
            {"protocol": "tcp", "name": "iperf", **to(cls.iperf_port)},
            {"protocol": "tcp", "name": "database", **to(cls.database.port)},
            {"protocol": "tcp", "name": "postgres", **to(cls.postgres.port)},
            {"protocol": "tcp", "name": "ssh", **to(cls.ssh_port)},
            {"protocol": "http", "name": "web", **to(cls.web_port)},
            {"protocol": "http-proxy"},
        ]}
        super().setUpClass()
        cls.start_sshd()

    @classmethod
    def start_sshd(cls):
        folder = os.path.join(cls.mesh.folder, "ssh")
        os.makedirs(folder)
        cls.user = pwd.getpwuid(os.geteuid()).pw_name
        for key in ("host", "user"):
            subprocess.run([program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"],
                           check=True, timeout=LIMIT_S)
        shutil.copy(f"{folder}/user.pub", f"{folder}/authorized_keys")
        with open(f"{folder}/host.pub", encoding="ascii") as f:
            key = " ".join(f.read().split()[:2])
        with open(f"{folder}/known_hosts", "w", encoding="ascii") as f:
            f.write(f"[127.0.0.1]:{cls.ssh_port} {key}\n[127.0.0.1]:{cls.mesh.ports['ssh']} {key}\n")
        with open(f"{folder}/sshd_config", "w", encoding="ascii") as f:
            f.write(f"Port {cls.ssh_port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
                    f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nPermitRootLogin yes\n"
                    "PasswordAuthentication no\nAllowTcpForwarding yes\n")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where it confines itself to
        with open(f"{folder}/sshd.log", "wb") as log:
            cls.sshd = started(subprocess.Popen([program("sshd"), "-D", "-e", "-f", f"{folder}/sshd_config"],
                                                stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        cls.addClassCleanup(cls.sshd.wait)
        cls.addClassCleanup(cls.sshd.terminate)
        wait_until(lambda: can_connect(cls.ssh_port), "sshd")
        cls.ssh_options = ["-F", "none", "-i", f"{folder}/user", "-o", f"UserKnownHostsFile={folder}/known_hosts",
                           "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "GlobalKnownHostsFile=none"]
        proxy = (f"{BIN}/tunnelmesh-client proxy tcp --config {cls.mesh.path('client')} --agent {cls.mesh.agent_id} "
                 "--target-host %h --target-port %p")
        cls.through_proxy = [*cls.ssh_options, "-o", f"ProxyCommand={proxy}"]

    def run_it(self, *command, data=None, env=None, code=0):
        done = subprocess.run(command, input=data, stdin=subprocess.DEVNULL if data is None else None,
                              capture_output=True, timeout=LIMIT_S, check=False, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return done.stdout

    def same(self, got, wanted=DATA):
        self.assertEqual(len(got), len(wanted))
        self.assertEqual(hashlib.sha256(got).digest(), hashlib.sha256(wanted).digest())

    # --- ssh and git -----------------------------------------------------------------------

    def ssh(self, *command, options=None, port=None, **kw):
        return self.run_it("ssh", *(options or self.through_proxy), "-p", str(port or self.ssh_port),
                           f"{self.user}@127.0.0.1", *command, **kw)

    def test_ssh_through_proxy_command(self):
        self.assertEqual(self.ssh("echo", "there"), b"there\n")
        self.ssh("exit 7", code=7)

    def test_ssh_carries_bulk_both_ways_through_proxy_command(self):
        self.same(self.ssh("cat", data=DATA))

    def test_ssh_through_a_tcp_entry(self):
        self.same(self.ssh("cat", data=DATA, options=self.ssh_options, port=self.mesh.ports["ssh"]))

    def test_ssh_says_that_the_target_refused(self):
        port = free_port()
        done = subprocess.run(["ssh", *self.through_proxy, "-p", str(port), f"{self.user}@127.0.0.1", "true"],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 255)
        self.assertTrue(done.stderr.startswith(b"proxy: the target refused the connection\n"), done.stderr)

    def repository(self, name):
        path = os.path.join(self.files, name)
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", path]
        self.run_it("git", "init", "-q", "-b", "main", path)
        shutil.copy(os.path.join(self.files, "data"), path)
        self.run_it(*git, "add", "data")
        self.run_it(*git, "commit", "-q", "-m", "data")
        return path

    def cloned(self, url, env):
        to = os.path.join(self.mesh.folder, "clone-" + url.split(":")[0] + "-" + str(len(env)))
        self.run_it("git", "clone", "-q", url, to, env={**env, "GIT_TERMINAL_PROMPT": "0"})
        with open(os.path.join(to, "data"), "rb") as f:
            self.same(f.read())
        return to

    def test_git_over_ssh_clones_and_pushes(self):
        path = self.repository("over-ssh")
        quoted = " ".join(f"'{option}'" for option in self.through_proxy)
        env = {"GIT_SSH_COMMAND": f"ssh {quoted}"}
        clone = self.cloned(f"ssh://{self.user}@127.0.0.1:{self.ssh_port}{path}", env)
        self.run_it("git", "-C", clone, "push", "-q", "origin", "main:pushed", env=env)
        self.assertIn(b"pushed", self.run_it("git", "-C", path, "branch"))

    def test_git_over_http_through_the_http_proxy(self):
        path = self.repository("over-http")
        self.run_it("git", "-C", path, "update-server-info")
        self.cloned(f"http://127.0.0.1:{self.web_port}/over-http/.git",
                    {"http_proxy": f"http://127.0.0.1:{self.mesh.ports['http-proxy']}", "no_proxy": ""})

    def test_git_over_http_through_socks5(self):
        path = self.repository("over-socks")
        self.run_it("git", "-C", path, "update-server-info")
        self.cloned(f"http://127.0.0.1:{self.web_port}/over-socks/.git",
                    {"ALL_PROXY": f"socks5h://127.0.0.1:{self.mesh.socks_port}", "no_proxy": "", "http_proxy": ""})

    # --- nc --------------------------------------------------------------------------------

    def test_nc_through_a_tcp_entry(self):
        self.same(self.run_it("nc", "-N", "127.0.0.1", str(self.mesh.ports["echo"]), data=DATA))

    def test_nc_through_a_unix_socket(self):
        self.same(self.run_it("nc", "-N", "-U", self.unix, data=DATA))

    def test_nc_through_socks5_and_connect(self):
        for kind, port in (("5", self.mesh.socks_port), ("connect", self.mesh.ports["http-proxy"])):
            self.same(self.run_it("nc", "-N", "-X", kind, "-x", f"127.0.0.1:{port}", "127.0.0.1", str(self.echo.port),
                                  data=DATA))

    # LESSONS P-B2: the printer's answer.
    def test_nc_gets_an_answer_that_begins_after_its_end(self):
        def printer(s):
            size = 0
            while chunk := s.recv(65536):
                size += len(chunk)
            s.sendall(b"printed %d bytes" % size)

        target = Target(handle=printer)
        self.addCleanup(target.close)
        got = self.run_it("nc", "-N", "-X", "5", "-x", f"127.0.0.1:{self.mesh.socks_port}", "127.0.0.1",
                          str(target.port), data=DATA)
        self.assertEqual(got, b"printed %d bytes" % len(DATA))

    # --- iperf3 ----------------------------------------------------------------------------

    # LESSONS P-C2: -R hung for ever through other tunnels.
    def test_iperf3_both_ways(self):
        for way in ([], ["-R"], ["-P", "4"], ["--bidir"]):
            with subprocess.Popen([program("iperf3"), "-s", "-1", "-B", "127.0.0.1", "-p", str(self.iperf_port)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
                try:
                    # A connection would be the one test it serves.
                    wait_until(lambda: is_listening(self.iperf_port), "iperf3")
                    out = self.run_it("iperf3", "-c", "127.0.0.1", "-p", str(self.mesh.ports["iperf"]), "-n", "20M", "-J",
                                      *way)
                    self.assertEqual(server.wait(LIMIT_S), 0)
                finally:
                    server.kill()
            report = json.loads(out)
            self.assertNotIn("error", report)
            # What is in the buffers at the end of the test does not count.
            self.assertGreater(report["end"]["sum_received"]["bytes"], 1 << 20, way)

    # --- a database ------------------------------------------------------------------------

    def sql(self, text, data=None):
        return self.run_it(program("mariadb"), "--no-defaults", "--protocol=TCP", "--host=127.0.0.1",
                           f"--port={self.mesh.ports['database']}", f"--user={self.database.user}", "--batch",
                           "--skip-column-names", "--max-allowed-packet=64M", "--database=tm", "--execute", text,
                           data=data, env={"MYSQL_PWD": self.database.password})

    def test_a_database_client_through_a_tcp_entry(self):
        self.assertEqual(self.sql("SELECT 6 * 7"), b"42\n")
        rows = self.sql("SELECT seq, REPEAT('x', 1000) FROM seq_1_to_5000").splitlines()
        self.assertEqual(len(rows), 5000)
        self.assertEqual(rows[-1], b"5000\t" + b"x" * 1000)

    def psql(self, *arguments, data=None, tls=f"host={PrivatePostgres.certified_name} hostaddr=127.0.0.1 sslmode=verify-full"):
        where = f"{tls} port={self.mesh.ports['postgres']} user={self.postgres.user} dbname=postgres"
        return self.run_it(program("psql"), "--no-psqlrc", "-AtqX", "-v", "ON_ERROR_STOP=1", where, *arguments, data=data,
                           env={"PGPASSWORD": self.postgres.password, "PGSSLROOTCERT": self.postgres.ca})

    # As the client guide has it: the certificate of the database is verified through the entry.
    def test_psql_through_a_tcp_entry(self):
        self.assertEqual(self.psql("-c", "SELECT 6 * 7, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"), b"42|t\n")
        self.assertEqual(self.psql("-c", "SELECT 1", tls="host=127.0.0.1 sslmode=require"), b"1\n")

    def test_psql_carries_bulk_both_ways(self):
        rows = b"".join(b"%d\t%s\n" % (i, b"x" * 1000) for i in range(5000))
        self.same(self.psql("-c", "CREATE TEMP TABLE t (id int, x text)", "-c", "COPY t FROM STDIN",
                            "-c", "COPY (SELECT * FROM t ORDER BY id) TO STDOUT", data=rows), rows)

    # --- wget ------------------------------------------------------------------------------

    def test_wget_through_the_http_proxy(self):
        self.same(self.run_it("wget", "-q", "-O", "-", f"http://127.0.0.1:{self.web_port}/data",
                              env={"http_proxy": f"http://127.0.0.1:{self.mesh.ports['http-proxy']}", "no_proxy": ""}))

    def test_wget_through_the_http_entry(self):
        self.same(self.run_it("wget", "-q", "-O", "-", f"http://127.0.0.1:{self.mesh.ports['web']}/data",
                              env={"http_proxy": "", "no_proxy": "*"}))


if __name__ == "__main__":
    unittest.main()
