"""The configuration changes while streams run: tunnels, secrets and certificates."""

import hashlib
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from harness import (BIN, WAIT_S, EchoTarget, MeshTest, Target, free_port, is_listening, receive_exactly,
                     socks_connect, wait_until)
from test_tls import use_tls

BLOCK = random.Random(7).randbytes(65536)


class StreamTarget(Target):
    """Sends blocks until it is told to end, with the digest of what it sent behind them."""

    def __init__(self):
        super().__init__()
        self.is_over = threading.Event()

    def handle(self, s):
        digest = hashlib.sha256()
        while not self.is_over.is_set():
            s.sendall(BLOCK)
            digest.update(BLOCK)
            time.sleep(0.001)
        s.sendall(digest.digest())


class Download:
    """A stream through the first entry that runs during the test."""

    def __init__(self, port):
        self.target = StreamTarget()
        self.socket = socks_connect(port, "127.0.0.1", self.target.port)
        self.received = bytearray()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while chunk := self.socket.recv(262144):
            self.received += chunk

    def more(self):
        seen = len(self.received)
        wait_until(lambda: len(self.received) > seen + len(BLOCK), "more bytes of the download")

    def finish(self):
        """Whether every byte came, in order."""
        self.target.is_over.set()
        self.thread.join(WAIT_S)
        self.socket.close()
        self.target.close()
        data = bytes(self.received)
        return not self.thread.is_alive() and hashlib.sha256(data[:-32]).digest() == data[-32:]


class Reload(MeshTest):
    options = {"edit": use_tls}

    def setUp(self):
        self.client = self.mesh.programs["client"]
        self.before = {role: self.mesh.read(role) for role in ("server", "agent", "client")}
        self.download = Download(self.mesh.socks_port)

    def tearDown(self):
        self.assertTrue(self.download.finish(), "the download lost bytes")
        for role, text in self.before.items():
            if self.mesh.read(role) != text:
                self.after(role, "config_reloaded", lambda role=role, text=text: self.replace(role, text))
        super().tearDown()

    def after(self, role, words, change, count=1):
        """The log's lines since the change, once they hold the words that often."""
        program = self.mesh.programs[role]
        start = len(program.text())
        change()
        wait_until(lambda: program.text()[start:].count(words) >= count or self.mesh.dead(role),
                   f"{words} in the log of the {role}")
        return program.text()[start:]

    def replace(self, role, text):
        """As an installer does it: another file under the same name."""
        path = self.mesh.path(role)
        with open(path + ".new", "w", encoding="utf-8") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(text)
        os.rename(path + ".new", path)

    def with_entries(self, *entries):
        """The client's own file and more entries."""
        text = self.before["client"]
        for name, port in entries:
            text += (f"    - name: {name}\n      protocol: socks5\n      listen: 127.0.0.1:{port}\n"
                     f"      agent_id: {self.mesh.agent_id}\n")
        return text

    def test_tunnels_come_change_and_go_beside_a_download(self):
        first, second = free_port(), free_port()
        target = EchoTarget()
        self.addCleanup(target.close)
        self.after("client", "config_reloaded", lambda: self.replace("client", self.with_entries(("more", first))))
        stream = socks_connect(first, "127.0.0.1", target.port)
        self.addCleanup(stream.close)
        self.download.more()
        text = self.after("client", "config_reloaded",
                          lambda: self.replace("client", self.with_entries(("more", second))))
        self.assertEqual(text.count("entry_closed entry=more locals=1"), 1, text)
        self.assertFalse(is_listening(first))
        socks_connect(second, "127.0.0.1", target.port).close()
        stream.sendall(b"still there")
        self.assertEqual(receive_exactly(stream, 11), b"still there")
        text = self.after("client", "config_reloaded", lambda: self.replace("client", self.with_entries()))
        self.assertFalse(is_listening(second))
        stream.sendall(b"and still")
        self.assertEqual(receive_exactly(stream, 9), b"and still")
        self.assertEqual(self.client.text().count("entry_open entry=socks5 "), 1, "the first one was left alone")
        self.download.more()

    def test_a_bad_file_changes_nothing_and_is_named_once(self):
        line = self.before["client"].count("\n") + 2
        bad = "sockz".join(self.with_entries(("more", free_port())).rsplit("socks5", 1))
        text = self.after("client", "config_refused", lambda: self.replace("client", bad))
        self.assertIn(f"{self.mesh.path('client')}:{line}: client.tunnels[1].protocol: must be one of", text)
        os.utime(self.mesh.path("client"))
        self.replace("client", bad)
        socks_connect(self.mesh.socks_port, "127.0.0.1", self.download.target.port).close()
        self.download.more()
        text += self.after("client", "config_reloaded", lambda: self.replace("client", self.before["client"] + "\n"))
        self.assertEqual(text.count("config_refused"), 1, text)

    def test_an_entry_that_cannot_listen_is_its_own_error(self):
        port, busy = free_port(), free_port()
        with socket.create_server(("127.0.0.1", busy)):
            text = self.after("client", "config_reloaded", lambda: self.replace(
                "client", self.with_entries(("busy", busy), ("more", port))))
        self.assertRegex(text, r'entry_failed entry=busy listen=127\.0\.0\.1:\d+ reason="the address is already in use"')
        self.assertTrue(is_listening(port))
        self.assertTrue(is_listening(self.mesh.socks_port))
        self.after("client", "entry_open entry=busy", lambda: self.client.process.send_signal(signal.SIGHUP))

    def test_what_needs_a_restart_is_named(self):
        changed = re.sub(r"instance_id: .*", "instance_id: other\n  log_level: debug", self.before["client"], count=1)
        text = self.after("client", "config_reloaded", lambda: self.replace("client", changed))
        self.assertIn("config_needs_restart keys=client.instance_id\n", text)
        self.after("client", "debug flow_done", lambda: socks_connect(
            self.mesh.socks_port, "127.0.0.1", self.download.target.port).close())

    def test_without_watching_only_sighup_counts(self):
        off = self.before["client"].replace("client:\n", "client:\n  config_watch: false\n", 1)
        self.after("client", "config_reloaded", lambda: self.replace("client", off))
        port = free_port()
        added = off + self.with_entries(("more", port))[len(self.before["client"]):]
        start = len(self.client.text())
        self.mesh.rewrite("client", lambda _: added)
        time.sleep(0.6)
        self.assertNotIn("config_", self.client.text()[start:])
        self.after("client", "config_reloaded", lambda: self.client.process.send_signal(signal.SIGHUP))
        self.assertTrue(is_listening(port))
        self.replace("client", self.before["client"])
        self.after("client", "config_reloaded", lambda: self.client.process.send_signal(signal.SIGHUP))

    def test_the_agents_policy(self):
        target = EchoTarget()
        self.addCleanup(target.close)
        running = socks_connect(self.mesh.socks_port, "127.0.0.1", target.port)
        self.addCleanup(running.close)
        denied = self.before["agent"].replace("agent:\n", "agent:\n  policy: {deny: [127.0.0.0/8]}\n", 1)
        self.after("agent", "config_reloaded", lambda: self.replace("agent", denied))
        with self.assertRaisesRegex(Exception, "SOCKS5 reply 2"):
            socks_connect(self.mesh.socks_port, "127.0.0.1", target.port)
        running.sendall(b"opened before")
        self.assertEqual(receive_exactly(running, 13), b"opened before")

    def serial(self):
        context = ssl.create_default_context(cafile=os.path.join(self.mesh.folder, "pki", "ca.pem"))
        with socket.create_connection(("127.0.0.1", self.mesh.http_port), WAIT_S) as plain, \
                context.wrap_socket(plain, server_hostname="127.0.0.1") as s:
            return s.getpeercert()["serialNumber"]

    # LESSONS P-K3.
    def test_the_servers_certificate_is_swapped(self):
        pki = os.path.join(self.mesh.folder, "pki")
        old = self.serial()

        def renew():
            subprocess.run(f"""set -e; cd '{pki}'
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=renewed -keyout new-key.pem -out new.csr 2>/dev/null
printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth\\n' >ext
openssl x509 -req -in new.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 30 -out new.pem -extfile ext 2>/dev/null
mv new-key.pem server-key.pem; mv new.pem server.pem""", shell=True, check=True, timeout=60)

        self.after("server", "config_reloaded", renew)
        self.assertNotEqual(self.serial(), old)
        self.download.more()

    def test_a_certificate_without_its_key_is_not_used(self):
        path = os.path.join(self.mesh.folder, "pki", "server-key.pem")
        old = self.serial()
        with open(path, encoding="ascii") as f:
            key = f.read()
        text = self.after("server", "config_refused", lambda: self.write_file(path, "no key\n"))
        self.assertIn("not an unencrypted PEM private key", text)
        self.assertEqual(self.serial(), old)
        self.after("server", "config_reloaded", lambda: self.write_file(path, key))

    @staticmethod
    def write_file(path, text):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)


class Token(MeshTest):
    """A new token in its file is what the next link shows."""

    def test_token_file(self):
        created = self.mesh.admin("token", "create", "--type", "client")
        secret = created.get("secret") or created["token"]
        old = self.mesh.admin("token", "list")
        text = self.mesh.read("client")
        path = os.path.join(self.mesh.folder, "token")
        with open(path, "w", encoding="ascii") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(re.search(r"token: \"?(\S+?)\"?\n", text).group(1))
        client = self.mesh.programs["client"]

        def reloaded(count):
            return lambda: client.text().count("config_reloaded") == count or self.mesh.dead("client")

        self.mesh.rewrite("client", lambda t: re.sub(r"token: .*", f"token_file: {path}", t, count=1))
        wait_until(reloaded(1), "the token's file")
        with open(path + ".new", "w", encoding="ascii") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(secret + "\n")
        os.rename(path + ".new", path)
        wait_until(reloaded(2), "the new token")
        for token in old if isinstance(old, list) else old["items"]:
            if token["type"] == "client" and token["id"] != created.get("id"):
                self.mesh.admin("token", "revoke", token["id"])
        self.mesh.wait_ready()
        self.assertNotIn(secret, client.text())


class CommandLine(unittest.TestCase):
    # LESSONS P-K7.
    def test_no_secret_in_ps(self):
        secret = "hunter2-" + "x" * 32
        process = subprocess.Popen(
            [os.path.join(BIN, "tunnelmesh-client"), "forward", "socks5", "--agent", "a", "--client.token", secret,
             "--client.server_url=ws://127.0.0.1:9", "--listen", "127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.assertIn("listens on", process.stdout.readline())
            for name in ("cmdline", "comm"):
                with open(f"/proc/{process.pid}/{name}", encoding="ascii") as f:
                    self.assertNotIn(secret, f.read())
            seen = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(process.pid)], capture_output=True,
                                  text=True, timeout=WAIT_S, check=False).stdout
            self.assertIn("--client.server_url=ws://127.0.0.1:9", seen)
            self.assertNotIn("hunter2", seen)
        finally:
            process.terminate()
            _, err = process.communicate(timeout=WAIT_S)
        self.assertIn("warning: client.token: is visible to every user of this machine", err)
        self.assertNotIn("hunter2", err)

    def test_a_credential_of_the_service_manager(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tunnelmesh-client.token"), "w", encoding="ascii") as f:
                f.write("of-the-manager\n")
            done = subprocess.run(
                [os.path.join(BIN, "tunnelmesh-client"), "check-config", "--client.server_url=wss://hub.example.com"],
                env={**os.environ, "CREDENTIALS_DIRECTORY": folder}, capture_output=True, text=True, timeout=WAIT_S,
                check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
