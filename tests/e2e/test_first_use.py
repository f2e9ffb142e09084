"""The command line as a new user meets it: quickstart, administration, configuration errors."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import tempfile
import unittest

from harness import BIN, WAIT_S, EchoTarget, Mesh, SocksRefused, free_port, receive_exactly, socks_connect, wait_until

MAKE_CA = os.path.join(os.path.dirname(__file__), "..", "support", "make_ca.sh")


def run(program, *arguments, env=None):
    return subprocess.run([os.path.join(BIN, f"tunnelmesh-{program}"), *arguments], capture_output=True, text=True,
                          timeout=WAIT_S, check=False, env={**os.environ, **(env or {})})


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tmesh-first-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def quickstart(self, *more):
        return run("server", "quickstart", "--dir", self.path("mesh"), "--agent", "home", "--listen",
                   f"127.0.0.1:{free_port()}", "--socks5", f"127.0.0.1:{free_port()}", *(more or ("--allow", "*:*")))


class Quickstart(Folder):
    def bytes_of(self, name):
        with open(self.path("mesh", name), "rb") as f:
            return f.read()

    def test_files_are_private_and_the_commands_are_printed(self):
        done = self.quickstart()
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("server.yaml", "agent.yaml", "client.yaml"):
            self.assertEqual(stat.S_IMODE(os.stat(self.path("mesh", name)).st_mode), 0o600, name)
        for role in ("server", "agent", "client"):
            self.assertIn(f"tunnelmesh-{role} run --config", done.stdout)
            self.assertEqual(run(role, "check-config", "--config", self.path("mesh", f"{role}.yaml")).returncode, 0)

    def test_a_second_run_changes_nothing(self):
        self.assertEqual(self.quickstart().returncode, 0)
        before = self.bytes_of("client.yaml")
        again = self.quickstart()
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("mesh", again.stderr)
        self.assertEqual(self.bytes_of("client.yaml"), before)

    def test_bad_patterns_are_named_and_nothing_is_left(self):
        for pattern in ("10.0.0.0/33:*", "host", "host:70000", ":80", "*.:443", "a b:1"):
            done = self.quickstart("--allow", pattern)
            self.assertIn(done.returncode, (1, 2), pattern)
            self.assertIn(pattern, done.stderr)
            self.assertFalse(os.path.exists(self.path("mesh", "server.yaml")), pattern)

    def test_every_kind_of_pattern(self):
        done = self.quickstart("--allow", "10.0.0.0/8:*", "--allow", "*.example.com:443", "--allow", "db.lan:5432",
                               "--allow", "[::1]:443")
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = run("server", "policy", "list", "--config", self.path("mesh", "server.yaml"), "--json")
        hosts = {p["targetHost"] for p in json.loads(listed.stdout)}
        self.assertEqual(hosts, {"10.0.0.0/8", "*.example.com", "db.lan", "::1"})


class Administration(unittest.TestCase):
    def test_a_new_agent_and_a_revoked_token(self):
        mesh = Mesh()
        target = EchoTarget()
        try:
            agents = mesh.admin("agent", "list")
            self.assertEqual([a["name"] for a in agents], ["home"])
            users = mesh.admin("user", "list")
            mesh.admin("user", "create", "ann")
            self.assertEqual(len(mesh.admin("user", "list")), len(users) + 1)
            with socks_connect(mesh.socks_port, "127.0.0.1", target.port) as s:
                s.sendall(b"x")
                receive_exactly(s, 1)
            token = next(t["id"] for t in mesh.admin("token", "list") if t["type"] == "client")
            mesh.admin("token", "revoke", token)
            # The command line commits in a process of its own: the server notices within 3 s.
            replies = set()

            def is_refused():
                try:
                    socks_connect(mesh.socks_port, "127.0.0.1", target.port).close()
                except SocksRefused as refused:
                    replies.add(refused.reply)
                return replies

            wait_until(is_refused, "the refusal of a revoked token")
            # Forbidden while the link stands, or no link any more.
            self.assertTrue(replies <= {1, 2, 4}, replies)
            accepted = target.connections()
            with self.assertRaises(SocksRefused):
                socks_connect(mesh.socks_port, "127.0.0.1", target.port)
            self.assertEqual(target.connections(), accepted)
        finally:
            target.close()
            mesh.close()


class Configuration(Folder):
    def problems(self, role, text):
        path = self.write("config.yaml", text)
        done = run(role, "check-config", "--config", path)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        return done.stderr

    def test_every_problem_at_once_with_line_and_nearest_key(self):
        out = self.problems("client", "client:\n  server_url: http://x/ws/client\n  tokenn: abc\n  tunnels:\n"
                            "    - listen: 127.0.0.1:70000\n      protocol: socks5\n")
        for wanted in (r"config\.yaml:2: client\.server_url", r"config\.yaml:3: client\.tokenn.*client\.token\b",
                       r"config\.yaml:5: client\.tunnels\[0\]\.listen", r"agent_id"):
            self.assertRegex(out, wanted)

    def test_tabs_unknown_keys_wrong_types_and_ranges(self):
        self.assertRegex(self.problems("agent", "agent:\n\tid: x\n"), r"config\.yaml:2: .*tab")
        self.assertRegex(self.problems("server", "server:\n  stream:\n    max_concurrent_opens: 0\n"), r":3: server\.stream")
        self.assertRegex(self.problems("server", "tls:\n  enabled: maybe\n"), r":2: tls\.enabled")
        self.assertRegex(self.problems("server", "serverr: {}\n"), r":1: serverr.*server")

    def test_remote_listener_needs_consent_and_a_password(self):
        text = ("client:\n  server_url: ws://127.0.0.1:1/ws/client\n  token: " + "t" * 43 + "\n  tunnels:\n"
                "    - listen: 0.0.0.0:1080\n      protocol: socks5\n      agent_id: a\n%s")
        self.assertRegex(self.problems("client", text % ""), "allow_remote")
        self.assertRegex(self.problems("client", text % "      allow_remote: true\n"), "password")

    def test_unreadable_and_missing_files(self):
        missing = run("server", "run", "--config", self.path("nowhere.yaml"))
        self.assertEqual(missing.returncode, 3)
        self.assertIn("nowhere.yaml", missing.stderr)
        toml = run("server", "check-config", "--config", self.write("x.toml", "a = 1\n"))
        self.assertEqual(toml.returncode, 3)
        self.assertIn("TOML", toml.stderr)

    def test_files_that_run_cannot_use(self):
        subprocess.run([MAKE_CA, self.folder], check=True, timeout=WAIT_S)
        cert, key, junk = self.path("server.pem"), self.path("ca-key.pem"), self.write("junk.pem", "junk\n")
        tls = "tls:\n  enabled: true\n  cert_file: %s\n  key_file: %s\n"
        agent = f"agent:\n  server_url: %s://127.0.0.1:1\n  token: {'t' * 43}\n  id: a\n  %s: {{%s: {junk}}}\n"
        client = (f"client:\n  server_url: %s://127.0.0.1:1\n  token: {'t' * 43}\n  %s: {{ca_file: {junk}}}\n  tunnels:\n"
                  "    - {protocol: socks5, listen: '127.0.0.1:0', agent_id: a, auth_url: 'https://x'}\n")
        no_ca = f"CA file {junk}: holds no PEM certificate"
        for role, text, problem in (
                ("server", tls % (cert, key), f"tls.cert_file, tls.key_file: key {key}: not the key of certificate {cert}"),
                ("server", tls % (junk, key), f"tls.cert_file, tls.key_file: certificate {junk}: not a PEM certificate"),
                ("server", f"server: {{token_encryption_key_file: {junk}}}\n",
                 "the key for token secrets: TUNNELMESH_TOKEN_ENCRYPTION_KEY is not 16, 24 or 32 bytes in base64 or hex"),
                ("agent", agent % ("wss", "tls", "ca_file"), f"agent.tls.ca_file: {no_ca}"),
                ("agent", agent % ("ws", "streams", "tls_ca_file"), f"agent.streams.tls_ca_file: {no_ca}"),
                ("client", client % ("wss", "tls"), f"client.tls.ca_file: {no_ca}"),
                ("client", client % ("ws", "remote_validation"), f"client.remote_validation.ca_file: {no_ca}")):
            with self.subTest(problem=problem):
                self.assertEqual(self.problems(role, text).splitlines()[-1], problem)
                refused = run(role, "run", "--config", self.path("config.yaml"))
                self.assertEqual(refused.stderr.splitlines()[-1], problem)
                self.assertNotEqual(refused.returncode, 0)

    def test_secrets_are_never_printed(self):
        secret = "s3cr3t-" + "x" * 40
        path = self.write("config.yaml", f"client:\n  server_url: ws://h/ws/client\n  token: {secret}\n")
        for command in ("print-config", "check-config"):
            done = run("client", command, "--config", path)
            self.assertNotIn(secret, done.stdout + done.stderr)

    def test_usage_errors_exit_2_and_name_the_nearest(self):
        done = run("client", "forwrd")
        self.assertEqual(done.returncode, 2)
        self.assertIn("forward", done.stderr)
        done = run("agent", "run", "--confg", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--config", done.stderr)

    # INTERFACE 5.3: scripts of deployed programs call these, which do no work there either.
    def test_commands_of_deployed_programs_say_where_it_is_done(self):
        path = self.write("config.yaml", "{}\n")
        done = run("server", "init-db", "--config", path)
        self.assertEqual((done.returncode, done.stdout.count("\n"), done.stderr), (0, 1, ""))
        self.assertIn("tunnelmesh-server migrate", done.stdout)
        self.assertEqual(os.listdir(self.folder), ["config.yaml"])
        done = run("agent", "register", "--config", path)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
        self.assertIn("tunnelmesh-server agent create", done.stderr)


class Trouble(unittest.TestCase):
    def mesh(self):
        mesh = Mesh(start=())
        self.addCleanup(shutil.rmtree, mesh.folder, ignore_errors=True)
        return mesh

    def test_busy_ports(self):
        mesh = self.mesh()
        for role, port in (("server", mesh.http_port), ("client", mesh.socks_port)):
            with socket.create_server(("127.0.0.1", port)):
                done = run(role, "run", "--config", mesh.path(role))
            self.assertEqual(done.returncode, 1, role)
            self.assertRegex(done.stderr, rf"127\.0\.0\.1:{port}.*in use", role)

    def test_newer_database_with_and_without_a_column_we_need(self):
        mesh = self.mesh()
        path = re.search(r'path:\s*"?([^"\n]+)', mesh.read("server")).group(1)
        db = sqlite3.connect(path)
        db.execute("UPDATE schema_meta SET version = 14")
        db.execute("CREATE TABLE later (id INTEGER)")
        db.commit()
        server = mesh.start("server")
        self.assertEqual(server.stop(signal.SIGTERM), 0)
        db.execute("ALTER TABLE agent_policies RENAME COLUMN allowed_cidrs TO gone")
        db.commit()
        db.close()
        done = run("server", "run", "--config", mesh.path("server"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"agent_policies.*allowed_cidrs|allowed_cidrs.*agent_policies")

    def test_the_agent_waits_for_a_network_that_comes_later(self):
        mesh = self.mesh()
        agent = mesh.start("agent")
        wait_until(lambda: "connect_failed" in agent.text(), "the first failed attempt")
        self.assertTrue(agent.alive())
        mesh.start("server")
        wait_until(lambda: "registered" in agent.text(), "the agent to register")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(mesh.programs["server"].stop(), 0)

    def test_a_socks5_password_is_asked_for(self):
        mesh = self.mesh()
        mesh.rewrite("client", lambda t: t.replace("protocol: socks5\n", "protocol: socks5\n      auth_mode: password\n"))
        mesh.start("server")
        mesh.start("agent")
        mesh.start("client", env={"TUNNELMESH_SOCKS5_USERNAME": "ann", "TUNNELMESH_SOCKS5_PASSWORD": "pass word:1"})
        target = EchoTarget()
        try:
            def works():
                try:
                    return socks_connect(mesh.socks_port, "127.0.0.1", target.port, user=("ann", "pass word:1"))
                except Exception:  # not connected yet
                    return None

            with wait_until(works, "an authenticated stream") as s:
                s.sendall(b"in")
                self.assertEqual(receive_exactly(s, 2), b"in")
            for user in (None, ("ann", "wrong"), ("bob", "pass word:1"), ("ann", "")):
                with self.assertRaises(Exception):
                    socks_connect(mesh.socks_port, "127.0.0.1", target.port, user=user)
        finally:
            target.close()
            mesh.close()


if __name__ == "__main__":
    unittest.main()
