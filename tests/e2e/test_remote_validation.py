"""auth_url: real programs that ask a service of the operator's about every open."""

import concurrent.futures
import contextlib
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import unittest

from harness import EchoTarget, MeshTest, SocksRefused, receive_exactly, socks_connect, wait_until

MAKE_CA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "make_ca.sh")
USER, PASSWORD = "the-user", "the:pass\u00e9word"
LOGIN = (USER, PASSWORD)
DENIED = 2


class Service:
    """Answers questions with `decide(question)`, a status; the port stays its own over a restart."""

    def __init__(self, tls=None):
        self.tls = tls
        self.questions = []
        self.paths = set()
        self.connections = 0
        self.decide = lambda question: 200
        self.body = b"the-answer-body"
        self.port = 0
        self.start()

    def start(self):
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                service.connections += 1
                super().setup()

            def do_POST(self):
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.questions.append(question)
                service.paths.add(self.path)
                self.send_response(service.decide(question))
                self.send_header("Content-Length", str(len(service.body)))
                self.end_headers()
                self.wfile.write(service.body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128
            live = set()

            def get_request(self):
                s, address = super().get_request()
                self.live.add(s)
                return s, address

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{self.tls}/server.pem", f"{self.tls}/server-key.pem")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        for s in self.server.live:
            with contextlib.suppress(OSError):
                s.shutdown(2)
        self.server.live.clear()


class RemoteValidation(MeshTest):
    @classmethod
    def setUpClass(cls):
        cls.service = Service()
        url = f"http://127.0.0.1:{cls.service.port}/the-path?key=the-url-key"
        cls.url = url
        cls.options = {
            "tunnels": [
                {"protocol": "socks5", "name": "asked", "auth_mode": "password", "auth_url": url},
                {"protocol": "socks5", "name": "tls", "auth_url": ""},
                {"protocol": "socks5", "name": "nobody", "auth_url": ""},
            ],
            "client_env": {"TUNNELMESH_SOCKS5_USERNAME": USER, "TUNNELMESH_SOCKS5_PASSWORD": PASSWORD},
            "edit": cls.prepare,
        }
        super().setUpClass()
        cls.target = EchoTarget()

    @classmethod
    def prepare(cls, mesh):
        pki = os.path.join(mesh.folder, "auth-pki")
        subprocess.run([MAKE_CA, pki], check=True, timeout=60)
        cls.tls_service = Service(pki)
        mesh.rewrite("client", lambda text: text.replace('"name": "tls", "auth_url": ""', f'"name": "tls", "auth_url": "https://localhost:{cls.tls_service.port}/"')
                     .replace('"name": "nobody", "auth_url": ""', f'"name": "nobody", "auth_url": "https://localhost:{cls.service.port}/"')
                     .replace("client:\n", f"client:\n  log_level: debug\n  remote_validation: {{ca_file: {pki}/ca.pem}}\n", 1))

    @classmethod
    def tearDownClass(cls):
        cls.target.close()
        super().tearDownClass()
        cls.service.stop()
        cls.tls_service.stop()

    def setUp(self):
        self.service.decide = lambda question: 200
        # Answers of the test before are about other targets, but for no longer than this.
        self.asked_before = len(self.service.questions)

    def reply(self, host, port, entry="asked", user=LOGIN):
        try:
            socks_connect(self.mesh.ports[entry], host, port, user=user).close()
            return 0
        except SocksRefused as refused:
            return refused.reply

    def reload(self, text):
        client = self.mesh.programs["client"]
        count = client.text().count("config_reloaded")
        self.mesh.rewrite("client", lambda _: text)
        client.process.send_signal(signal.SIGHUP)
        wait_until(lambda: client.text().count("config_reloaded") > count, "the reload")

    def questions(self):
        return self.service.questions[self.asked_before:]

    def test_a_yes_opens_and_the_service_is_told_what_for(self):
        with socks_connect(self.mesh.ports["asked"], "127.0.0.1", self.target.port, user=LOGIN) as s:
            s.sendall(b"hello")
            self.assertEqual(receive_exactly(s, 5), b"hello")
        question = next(q for q in self.service.questions if q["targetPort"] == self.target.port)
        self.assertEqual(question, {"protocol": "socks5", "agentId": self.mesh.agent_id, "targetHost": "127.0.0.1",
                                    "targetPort": self.target.port, "username": USER, "password": PASSWORD})
        self.assertEqual(self.service.paths, {"/the-path?key=the-url-key"})

    def test_a_no_is_not_allowed_and_nothing_reaches_the_target(self):
        self.service.decide = lambda question: 403
        for _ in range(10):  # a no is kept for two seconds, which a machine that stands still may miss
            target = EchoTarget()
            self.addCleanup(target.close)
            began, before = time.monotonic(), len(self.questions())
            self.assertEqual(self.reply("127.0.0.1", target.port), DENIED)
            self.assertEqual(self.reply("127.0.0.1", target.port), DENIED, "kept")
            if time.monotonic() - began < 1:
                break
        self.assertEqual(len(self.questions()) - before, 1)
        self.service.decide = lambda question: 200
        wait_until(lambda: self.reply("127.0.0.1", target.port) == 0, "the no to be forgotten")
        self.assertLessEqual(target.connections(), 1)

    def test_100_opens_of_one_key_at_once_are_one_question(self):
        target = EchoTarget()
        arrived = threading.Event()

        def decide(question):
            arrived.wait(30)
            return 200

        self.service.decide = decide
        try:
            with concurrent.futures.ThreadPoolExecutor(100) as pool:
                opens = [pool.submit(self.reply, "127.0.0.1", target.port) for _ in range(100)]
                wait_until(lambda: self.questions(), "the question")
                # Not all of them need to be there: who comes later finds the answer kept.
                time.sleep(0.2)
                arrived.set()
                self.assertEqual({one.result() for one in opens}, {0})
            self.assertEqual(len(self.questions()), 1)
            wait_until(lambda: len(target.accepted) == 100, "all connections")
        finally:
            arrived.set()
            target.close()

    def test_a_service_that_is_down_is_a_no_and_one_that_returns_is_heard(self):
        target = EchoTarget()
        try:
            self.service.stop()
            self.assertEqual(self.reply("127.0.0.1", target.port), DENIED)
            self.assertEqual(target.connections(), 0)
            self.service.start()
            began = time.monotonic()
            wait_until(lambda: self.reply("127.0.0.1", target.port) == 0, "a yes", limit_s=10)
            self.assertLess(time.monotonic() - began, 10, "one second is what a failure is kept")
        finally:
            target.close()

    def test_questions_share_kept_connections(self):
        before = self.service.connections
        for port in range(1, 41):
            self.assertNotEqual(self.reply("127.0.0.1", port), DENIED)
        self.assertEqual(len(self.questions()), 40)
        self.assertLessEqual(self.service.connections - before, 2)

    def test_https_asks_a_service_that_proves_its_name(self):
        self.assertEqual(self.reply("127.0.0.1", self.target.port, entry="tls", user=None), 0)
        self.assertEqual(self.tls_service.questions[-1], {
            "protocol": "socks5", "agentId": self.mesh.agent_id, "targetHost": "127.0.0.1",
            "targetPort": self.target.port})

    def test_https_to_something_else_is_a_no(self):
        self.assertEqual(self.reply("127.0.0.1", self.target.port, entry="nobody", user=None), DENIED)
        self.assertEqual(self.questions(), [])

    def test_an_entry_without_auth_url_asks_nobody(self):
        self.service.decide = lambda question: 403
        self.assertEqual(self.reply("127.0.0.1", self.target.port, entry="socks5", user=None), 0)
        self.assertEqual(self.questions(), [])

    def test_a_wrong_password_is_not_even_asked_about(self):
        with self.assertRaises(SocksRefused):
            socks_connect(self.mesh.ports["asked"], "127.0.0.1", self.target.port, user=(USER, "wrong"))
        self.assertEqual(self.questions(), [])

    def test_who_goes_away_while_it_is_asked_changes_nothing_for_others(self):
        target = EchoTarget()
        go_on = threading.Event()

        def decide(question):
            go_on.wait(30)
            return 200

        self.service.decide = decide
        try:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                with self.assertRaises(TimeoutError):
                    socks_connect(self.mesh.ports["asked"], "127.0.0.1", target.port, user=LOGIN, timeout_s=0.3)
                # The second asks while the first is known to be gone or about to be.
                other = pool.submit(self.reply, "127.0.0.1", target.port)
                time.sleep(0.1)
                go_on.set()
                self.assertEqual(other.result(), 0)
        finally:
            go_on.set()
            target.close()

    def test_a_reload_with_other_settings_forgets_every_answer(self):
        target = EchoTarget()
        try:
            self.assertEqual(self.reply("127.0.0.1", target.port), 0)
            self.assertEqual(self.reply("127.0.0.1", target.port), 0)
            self.assertEqual(len(self.questions()), 1)
            before = self.mesh.read("client")
            self.reload(before.replace("remote_validation: {", "remote_validation: {timeout: 4s, ", 1))
            self.addCleanup(self.reload, before)
            self.assertEqual(self.reply("127.0.0.1", target.port), 0)
            self.assertEqual(len(self.questions()), 2)
        finally:
            target.close()

    # Last by name: it reads what the others have left in the log.
    def test_z_nothing_of_it_is_in_the_log(self):
        name = "the-secret-target.invalid"
        self.assertEqual(self.reply(name, 4711), 4)
        self.service.decide = lambda question: 403
        self.assertEqual(self.reply(name, 4712), DENIED)
        self.service.decide = lambda question: 503
        self.assertEqual(self.reply(name, 4713), DENIED)
        text = self.mesh.programs["client"].text()
        self.assertTrue("debug remote_validation " in text)
        for secret in (USER, PASSWORD, "the:pass", "the-path", "the-url-key", "the-secret-target", "the-answer-body",
                       ":4711", f":{self.service.port}", f":{self.target.port}"):
            self.assertFalse(secret in text, secret)


if __name__ == "__main__":
    unittest.main()
