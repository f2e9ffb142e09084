"""A real page of 32 sub-resources from a real nginx, loaded by curl and by Chromium."""

import os
import shutil
import subprocess
import tempfile
import unittest

from harness import MeshTest, can_connect, free_port, started, wait_until

RESOURCES = 32
PAGE = """<!doctype html><html><head><title>0</title><script>
let count = 0;
function loaded() { count += 1; document.title = String(count); document.getElementById('n').textContent = 'loaded ' + count; }
</script></head><body><p id="n">loaded 0</p>
%s
</body></html>
"""


class Nginx:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tmesh-nginx-")
        self.port = free_port()
        os.chmod(self.folder, 0o755)
        root = os.path.join(self.folder, "www")
        os.makedirs(root)
        for i in range(RESOURCES):
            with open(os.path.join(root, f"r{i}.js"), "w", encoding="ascii") as f:
                f.write(f"loaded(); /* {'x' * (1000 * (i + 1))} */\n")
        with open(os.path.join(root, "index.html"), "w", encoding="ascii") as f:
            f.write(PAGE % "\n".join(f'<script src="/r{i}.js"></script>' for i in range(RESOURCES)))
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(f"""
daemon off; master_process off; worker_processes 1;
pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log {self.folder}/access.log;
  types {{ text/html html; application/javascript js; }}
  client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p; fastcgi_temp_path {self.folder}/f;
  uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;
  server {{ listen 127.0.0.1:{self.port}; root {root}; }}
}}
""")
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        self.process = started(subprocess.Popen([program, "-c", config, "-p", self.folder], stderr=subprocess.DEVNULL))
        wait_until(lambda: can_connect(self.port), "nginx")

    def requests(self):
        with open(os.path.join(self.folder, "access.log"), encoding="utf-8") as f:
            return f.read()

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


class Browser(MeshTest):
    def setUp(self):
        self.nginx = Nginx()
        self.addCleanup(self.nginx.close)

    def test_curl_loads_the_page_and_every_resource(self):
        urls = [f"http://127.0.0.1:{self.nginx.port}/"]
        urls += [f"http://localhost:{self.nginx.port}/r{i}.js" for i in range(RESOURCES)]
        out = os.path.join(self.nginx.folder, "out")
        os.makedirs(out)
        command = ["curl", "-sS", "--fail", "--max-time", "60", "--parallel", "--parallel-max", "32",
                   "--proxy", f"socks5h://127.0.0.1:{self.mesh.socks_port}"]
        for i, url in enumerate(urls):
            command += ["-o", os.path.join(out, str(i)), url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
        self.assertEqual(done.returncode, 0, done.stderr)
        for i in range(RESOURCES):
            with open(os.path.join(out, str(i + 1)), "rb") as got, \
                    open(os.path.join(self.nginx.folder, "www", f"r{i}.js"), "rb") as want:
                self.assertEqual(got.read(), want.read(), f"r{i}.js")

    def test_chromium_renders_the_page_with_32_resources(self):
        chromium = shutil.which("chromium")
        self.assertIsNotNone(chromium, "chromium is missing: deploy/setup.sh test installs it")
        profile = os.path.join(self.nginx.folder, "profile")
        done = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={profile}", f"--proxy-server=socks5://127.0.0.1:{self.mesh.socks_port}",
             "--proxy-bypass-list=<-loopback>", "--timeout=60000", "--virtual-time-budget=20000", "--dump-dom",
             f"http://localhost:{self.nginx.port}/index.html"],
            capture_output=True, text=True, check=False, timeout=180)
        self.assertIn(f"loaded {RESOURCES}", done.stdout, done.stderr[-2000:])
        self.assertEqual(self.nginx.requests().count("GET /r"), RESOURCES)


if __name__ == "__main__":
    unittest.main()
