"""The http-proxy entry: real clients and every turn of HTTP through it."""

import base64
import concurrent.futures
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

from harness import MeshTest, WAIT_S, can_connect, free_port, started, wait_until
from http_tools import BINARY, Origin, Reader, WebSocket, connect, fields_of, message, pattern, status_of
from test_browser import RESOURCES, Nginx

CA = os.path.join(os.path.dirname(__file__), "..", "support", "make_ca.sh")
USER, PASSWORD = "jürgen", "pass:wörd"
LOGIN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class HttpProxy(MeshTest):
    options = {
        "allow": ("127.0.0.1:*", "localhost:*"),
        "tunnels": ({"protocol": "http-proxy"}, {"protocol": "http-proxy", "auth_mode": "basic"}),
        "client_env": {"TUNNELMESH_HTTP_PROXY_USERNAME": USER, "TUNNELMESH_HTTP_PROXY_PASSWORD": PASSWORD},
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.mkdtemp(prefix="tmesh-http-")
        subprocess.run(["bash", CA, cls.folder], check=True, timeout=60)
        cls.port = cls.mesh.ports["http-proxy"]
        cls.auth_port = cls.mesh.ports["http-proxy-2"]
        cls.origin = Origin()
        server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server_tls.load_cert_chain(os.path.join(cls.folder, "server.pem"), os.path.join(cls.folder, "server-key.pem"))
        cls.tls_origin = Origin(tls=server_tls)
        cls.client_tls = ssl.create_default_context(cafile=os.path.join(cls.folder, "ca.pem"))

    @classmethod
    def tearDownClass(cls):
        cls.origin.close()
        cls.tls_origin.close()
        shutil.rmtree(cls.folder, ignore_errors=True)
        super().tearDownClass()

    def setUp(self):
        self.origin.heads.clear()
        self.client = connect(self.port)
        self.reader = Reader(self.client)
        self.addCleanup(self.client.close)

    def url(self, path="/", origin=None):
        return f"http://127.0.0.1:{(origin or self.origin).port}{path}"

    def request(self, path="/", method="GET", body=b"", origin=None, **fields):
        return message(f"{method} {self.url(path, origin)} HTTP/1.1", body, Host="x", **fields)

    def ask(self, *arguments, **keys):
        self.client.sendall(self.request(*arguments, **keys))
        return self.reader.answer(keys.get("method", "GET"))

    def curl(self, *arguments, port=None):
        return subprocess.run(
            ["curl", "-sS", "--max-time", "30", "--proxy", f"http://127.0.0.1:{port or self.port}", *arguments],
            capture_output=True, check=False, timeout=60)

    # --- messages

    def test_keep_alive_routes_every_request_by_itself(self):
        other = Origin()
        self.addCleanup(other.close)
        for i in range(6):
            head, body = self.ask(f"/{i}", origin=other if i % 3 == 2 else None)
            self.assertEqual(status_of(head), 200)
            self.assertTrue(body.startswith(f"GET /{i} HTTP/1.1\r\n".encode()), body)
        self.assertEqual((len(self.origin.heads), len(other.heads)), (4, 2))
        self.assertEqual(other.connections(), 2)

    def test_three_pipelined_requests_to_two_origins(self):
        self.client.sendall(self.request("/1") + self.request("/2", origin=self.origin) +
                            self.request("/bytes/70000") + self.request("/4", "HEAD"))
        for i in (1, 2):
            self.assertTrue(self.reader.answer()[1].startswith(f"GET /{i} ".encode()))
        self.assertEqual(self.reader.answer()[1], pattern(70000))
        self.assertEqual(status_of(self.reader.answer("HEAD")[0]), 200)

    def test_what_reaches_an_origin(self):
        self.ask("/x?y", Proxy_Authorization="Basic eDp5", Proxy_Connection="keep-alive", Authorization="Basic mine",
                 Connection="keep-alive, X-Hop", X_Hop="1", Keep_Alive="5", TE="trailers, gzip", X_End="2")
        head = self.origin.heads[-1].decode()
        self.assertTrue(head.startswith(f"GET /x?y HTTP/1.1\r\nHost: 127.0.0.1:{self.origin.port}\r\n"), head)
        self.assertEqual(set(fields_of(head.encode())), {"host", "authorization", "x-end", "te", "connection"})
        self.assertIn("\r\nTE: trailers\r\n", head)
        self.assertIn("\r\nConnection: TE\r\n", head)

    def test_chunks_and_trailers_both_ways(self):
        body = b"4;a=b\r\nabcd\r\n" + b"8000\r\n" + pattern(0x8000) + b"\r\n0\r\nX-Sum: 42\r\n\r\n"
        for _ in range(3):
            head, got = self.ask("/chunks", "POST", body, Transfer_Encoding="chunked", Trailer="X-Sum")
            self.assertEqual(got, body)
            self.assertNotIn("connection", fields_of(head))

    def test_a_large_upload_and_download_on_one_connection(self):
        n = 3_000_000
        self.assertEqual(self.ask("/count", "PUT", pattern(n), Content_Length=n)[1], str(n).encode())
        self.assertEqual(self.ask(f"/bytes/{n}")[1], pattern(n))

    def test_expect_in_all_its_turns(self):
        for what in ("100", "silent"):
            self.client.sendall(self.request(f"/expect/{what}", "POST", Expect="100-continue", Content_Length=5))
            if what == "100":
                self.assertEqual(self.reader.head(), b"HTTP/1.1 100 Continue\r\n\r\n")
            self.client.sendall(b"hello")
            head, body = self.reader.answer()
            self.assertEqual((status_of(head), body), (200, b"hello"))
        for what in ("417", "403"):
            with connect(self.port) as client:
                client.sendall(self.request(f"/expect/{what}", "POST", Expect="100-continue", Content_Length=5))
                reader = Reader(client)
                head, body = reader.answer()
                self.assertEqual((status_of(head), body), (int(what), b"no"))
                self.assertEqual(fields_of(head)["connection"], "close")
                self.assertEqual(reader.rest(), b"")

    def test_curl_waits_for_continue(self):
        for what, sent in (("100", b"x" * 2000), ("403", b"no")):
            path = os.path.join(self.folder, "body")
            with open(path, "wb") as f:
                f.write(b"x" * 2000)
            done = self.curl("-H", "Expect: 100-continue", "--expect100-timeout", "25", "--data-binary", f"@{path}",
                             self.url(f"/expect/{what}"))
            self.assertEqual((done.returncode, done.stdout), (0, sent), done.stderr)

    def test_http_1_0(self):
        self.client.sendall(f"GET {self.url('/old')} HTTP/1.0\r\n\r\n".encode())
        head, body = self.reader.answer()
        self.assertTrue(body.startswith(b"GET /old HTTP/1.0\r\nHost: 127.0.0.1:"), body)
        self.assertEqual(fields_of(head)["connection"], "close")
        self.assertEqual(self.reader.rest(), b"")

    # LESSONS P-J9: a thousand answers that the end of the connection ends, to the last byte.
    def test_a_thousand_closing_answers_are_complete(self):
        def run(i):
            n = i * 97 % 40_000
            path = f"/close/{n}" + ("/sized" if i % 2 else "")
            with connect(self.port) as s:
                if i % 5:
                    s.sendall(self.request(path, Connection="close"))
                else:
                    s.sendall(message(f"CONNECT localhost:{self.tls_origin.port} HTTP/1.1", Host="x"))
                    self.assertEqual(status_of(Reader(s).head()), 200)
                    s = self.client_tls.wrap_socket(s, server_hostname="localhost")
                    s.sendall(message(f"GET {path} HTTP/1.1", Host="x", Connection="close"))
                reader = Reader(s)
                head = reader.head()
                body = reader.rest()
                s.close()
            self.assertEqual((status_of(head), body), (200, pattern(n)), i)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(run, range(1000)))

    # LESSONS R5.
    def test_a_cut_answer_does_not_look_whole(self):
        self.client.sendall(self.request("/cut"))
        with self.assertRaises(OSError):
            self.reader.answer()
            self.fail("a regular end")

    def test_requests_with_two_readings_reach_nobody(self):
        for text in ("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     "POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
                     "GET {} HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n", "GET {} HTTP/1.1\r\nHost : a\r\n\r\n",
                     "GET {} HTTP/1.1\nHost: a\n\n", "POST {} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
                     "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET {} HTTP/1.1\r\n\r\n",
                     "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a:0 HTTP/1.1\r\nHost: a\r\n\r\n",
                     "CONNECT ::1:80 HTTP/1.1\r\nHost: a\r\n\r\n"):
            with connect(self.port) as client:
                client.sendall(text.format(self.url()).encode() + self.request("/smuggled"))
                reader = Reader(client)
                head, _ = reader.answer()
                self.assertEqual(status_of(head), 400, text)
                self.assertEqual(reader.rest(), b"", text)
        self.assertEqual(self.origin.heads, [])

    def test_an_answer_with_two_readings_is_502(self):
        head, _ = self.ask("/split")
        self.assertEqual(status_of(head), 502)
        self.assertIn("error=http_protocol_error", fields_of(head)["proxy-status"])
        self.assertEqual(status_of(self.ask("/next")[0]), 200)

    def test_errors_say_stage_and_code_and_keep_the_connection(self):
        closed = free_port()
        for target, status, details in ((f"127.0.0.1:{closed}", 502, "stage=connect, code=connection_refused"),
                                        ("192.0.2.1:80", 403, "stage=authorization, code=forbidden")):
            self.client.sendall(message(f"GET http://{target}/ HTTP/1.1", Host="x"))
            head, body = self.reader.answer()
            self.assertEqual(status_of(head), status, head)
            self.assertIn(details, fields_of(head)["proxy-status"])
            self.assertNotIn(target.split(":")[0], (head + body).decode())
        self.assertEqual(status_of(self.ask("/after")[0]), 200)

    # --- logins

    def test_407_keeps_the_connection(self):
        with connect(self.auth_port) as client:
            reader = Reader(client)
            for body in (b"", b"x" * 50_000):
                client.sendall(self.request("/", "POST", body, Content_Length=len(body)))
                head, _ = reader.answer()
                self.assertEqual(status_of(head), 407)
                self.assertEqual(fields_of(head)["proxy-authenticate"], 'Basic realm="TunnelMesh", charset="UTF-8"')
            client.sendall(self.request("/in", Proxy_Authorization=f"Basic {LOGIN}"))
            head, body = reader.answer()
            self.assertEqual(status_of(head), 200)
            self.assertNotIn(b"roxy", body)

    def test_curl_with_a_login(self):
        for login, status in ((f"{USER}:{PASSWORD}", b"200"), (f"{USER}:wrong", b"407"), (None, b"407")):
            extra = ["--proxy-user", login] if login else []
            for url in (self.url(), f"https://localhost:{self.tls_origin.port}/"):
                done = self.curl("-o", os.devnull, "--cacert", os.path.join(self.folder, "ca.pem"), *extra, "-w",
                                 "%{http_code} %{http_connect}", url, port=self.auth_port)
                code = done.stdout.split()[1 if url.startswith("https") else 0]
                self.assertEqual(code, status, done.stderr)

    # --- tunnels

    def test_connect_half_closes_both_ways(self):
        self.client.sendall(message(f"CONNECT 127.0.0.1:{self.origin.port} HTTP/1.1", Host="x") +
                            message("GET /close/100000 HTTP/1.1", Host="y"))
        self.assertEqual(self.reader.head(), b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.client.shutdown(socket.SHUT_WR)
        self.assertEqual(self.reader.answer()[1], pattern(100_000))

    def test_web_sockets_through_upgrade_and_through_connect(self):
        authority = f"127.0.0.1:{self.origin.port}"
        for is_tunnel in (False, True):
            client = connect(self.port)
            target = f"http://{authority}/ws"
            if is_tunnel:
                client.sendall(message(f"CONNECT {authority} HTTP/1.1", Host=authority))
                self.assertEqual(status_of(Reader(client).head()), 200)
                target = "/ws"
            ws = WebSocket(client, target, authority)
            self.assertEqual(ws.greeting, (BINARY, b"greeting"))
            for n in (0, 1, 125, 126, 70_000, 300_000):
                ws.send(pattern(n))
                self.assertEqual(ws.receive(), (BINARY, pattern(n)))
            self.assertEqual(ws.close(), b"")

    # --- real clients

    def test_curl_speaks_http_2_inside_connect(self):
        port = free_port()
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(f"""
daemon off; master_process off; worker_processes 1; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p;
  fastcgi_temp_path {self.folder}/f; uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;
  ssl_certificate {self.folder}/server.pem; ssl_certificate_key {self.folder}/server-key.pem;
  server {{ listen 127.0.0.1:{port} ssl http2; return 200 "over $server_protocol"; }}
}}
""")
        nginx = started(subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c", config, "-p", self.folder],
                                         stderr=subprocess.DEVNULL))
        self.addCleanup(lambda: (nginx.terminate(), nginx.wait(WAIT_S)))
        wait_until(lambda: can_connect(port), "nginx")
        done = self.curl("--http2", "--cacert", os.path.join(self.folder, "ca.pem"), "-w", " %{http_version}",
                         f"https://localhost:{port}/")
        self.assertEqual(done.stdout, b"over HTTP/2.0 2", done.stderr)

    def test_curl_that_wants_h2c_gets_http_1_1(self):
        done = self.curl("--http2", self.url("/plain"))
        self.assertTrue(done.stdout.startswith(b"GET /plain HTTP/1.1\r\n"), done)
        self.assertNotIn("upgrade", fields_of(self.origin.heads[-1]))
        self.assertNotIn("http2-settings", fields_of(self.origin.heads[-1]))

    def test_wget(self):
        done = subprocess.run(["wget", "-q", "-O", "-", self.url("/bytes/200000"), self.url("/close/5000")],
                              env={**os.environ, "http_proxy": f"http://127.0.0.1:{self.port}", "no_proxy": ""},
                              capture_output=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, pattern(200_000) + pattern(5000)), done.stderr)

    def test_chromium_renders_a_page_with_32_resources(self):
        nginx = Nginx()
        self.addCleanup(nginx.close)
        chromium = shutil.which("chromium")
        self.assertIsNotNone(chromium, "chromium is missing: deploy/setup.sh test installs it")
        done = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={os.path.join(self.folder, 'profile')}", f"--proxy-server=http://127.0.0.1:{self.port}",
             "--proxy-bypass-list=<-loopback>", "--timeout=60000", "--virtual-time-budget=20000", "--dump-dom",
             f"http://localhost:{nginx.port}/index.html"],
            capture_output=True, text=True, check=False, timeout=180)
        self.assertIn(f"loaded {RESOURCES}", done.stdout, done.stderr[-2000:])
        self.assertEqual(nginx.requests().count("GET /r"), RESOURCES)


if __name__ == "__main__":
    unittest.main()
