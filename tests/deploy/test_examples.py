"""Every example is a configuration that the program takes (requirement J8)."""

import os
import re
import subprocess
import unittest

from deploy_files import BIN, DEPLOY, LIMIT_S, ROOT, ScratchTest, read, write

EXAMPLES = sorted(os.listdir(os.path.join(DEPLOY, "examples")))
# What these two do, check-config has to warn about.
WARNINGS = {
    "client-remote-open.yaml": "is reachable from other machines without any authentication",
    "server-mysql.yaml": "do not pass streams to each other yet",
}


class Examples(ScratchTest):
    def setUp(self):
        super().setUp()
        for name, text in (("client-token", "t" * 43), ("agent-token", "t" * 43), ("socks5-login", "user\nword"),
                           ("http-proxy-login", "user\nword"), ("mysql-dsn", "u:p@tcp(db.example.com:3306)/mesh")):
            write(self.at(name), text + "\n", 0o600)
        subprocess.run([os.path.join(ROOT, "tests/support/make_ca.sh"), self.scratch], check=True, timeout=LIMIT_S)
        os.rename(self.at("server.pem"), self.at("fullchain.pem"))
        os.rename(self.at("server-key.pem"), self.at("key.pem"))

    def check(self, name):
        """The example with the files it names in the scratch folder."""
        path = self.at(name)
        write(path, read(os.path.join(DEPLOY, "examples", name)).replace("/etc/tunnelmesh", self.scratch))
        role = re.match(r"client|agent|server", name).group()
        env = {k: v for k, v in os.environ.items() if not k.startswith("TUNNELMESH_")}
        return subprocess.run([os.path.join(BIN, f"tunnelmesh-{role}"), "check-config", "--config", path],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)

    def test_each_is_valid_and_without_a_warning(self):
        self.assertGreaterEqual(len(EXAMPLES), 17)
        for name in EXAMPLES:
            with self.subTest(name=name):
                done = self.check(name)
                self.assertEqual((done.returncode, done.stdout), (0, "configuration valid\n"), done.stderr)
                if name in WARNINGS:
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertIn(WARNINGS[name], done.stderr)
                else:
                    self.assertEqual(done.stderr, "")

    def test_they_show_every_protocol_login_and_kind_of_listener(self):
        text = "\n".join(read(os.path.join(DEPLOY, "examples", name)) for name in EXAMPLES)
        for word in ("protocol: tcp", "protocol: udp", "protocol: http\n", "protocol: socks5", "protocol: http-proxy",
                     "auth_mode: password", "auth_mode: basic", "auth_url: https://", "allow_remote: true",
                     "listen: unix:/", "listen: 0.0.0.0:", "target_scheme: https", "max: 4", "high_watermark: 16",
                     "config_watch:", "token_file:", "driver: mysql", "trusted_proxies:"):
            self.assertIn(word, text)

    def test_none_holds_a_secret(self):
        for name in EXAMPLES:
            text = read(os.path.join(DEPLOY, "examples", name))
            self.assertIsNone(re.search(r"^\s*(token|password|dsn|username):", text, re.MULTILINE), name)

    def test_a_broken_one_would_be_noticed(self):
        source = self.at("client-broken.yaml")
        write(source, "client:\n  server_ur: wss://mesh.example.com\n")
        done = subprocess.run([os.path.join(BIN, "tunnelmesh-client"), "check-config", "--config", source],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
