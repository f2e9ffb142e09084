"""install.sh on a scratch root.

The service manager is a systemctl of the test's own, which writes down what it is told and
may be made to fail.
"""

import glob
import hashlib
import os
import subprocess
import tarfile

from deploy_files import BIN, DEPLOY, LIMIT_S, ScratchTest, read, write

TOKEN = "tm_" + "s" * 40
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"{log}"
case $1 in
  {fails}) exit 1 ;;
esac
exit 0
"""
CONFIG = """client:
  server_url: wss://mesh.example.com
  tunnels: [{protocol: socks5, listen: '127.0.0.1:0', agent_id: agent-1}]
"""


class InstallTest(ScratchTest):
    def setUp(self):
        super().setUp()
        self.root = self.at("root")
        self.log = self.at("systemctl.log")
        os.makedirs(os.path.join(self.root, "run/systemd/system"))
        self.manager()
        write(self.at("client.yaml"), CONFIG)
        write(self.at("token"), TOKEN + "\n", 0o600)
        self.program = os.path.join(self.root, "usr/local/bin/tunnelmesh-client")
        self.settings = os.path.join(self.root, "etc/tunnelmesh/client.yaml")
        self.token = os.path.join(self.root, "etc/tunnelmesh/client-token")
        self.unit = os.path.join(self.root, "etc/systemd/system/tunnelmesh-client.service")

    def manager(self, fails="nothing"):
        for name in ("systemctl", "rc-update", "rc-service"):
            write(self.at("path", name), SYSTEMCTL.format(log=self.log, fails=fails), 0o755)

    def programs(self, version="1.0"):
        """A folder with a client that says it has this version, and otherwise is the real one."""
        folder = self.at("bin-" + version)
        real = os.path.join(BIN, "tunnelmesh-client")
        write(os.path.join(folder, "tunnelmesh-client"),
              f'#!/bin/sh\n[ "$1" != --version ] || {{ echo "tunnelmesh-client {version}"; exit; }}\nexec "{real}" "$@"\n', 0o755)
        return folder

    def archive(self, version="1.0"):
        name = f"tunnelmesh-{version}-linux-amd64.tar.gz"
        path = self.at("archives", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tarfile.open(path, "w:gz") as tar:
            tar.add(self.programs(version), arcname=f"tunnelmesh-{version}/bin")
        with open(path, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        write(self.at("archives", "SHA256SUMS"), f"{'0' * 64}  another.tar.gz\n{digest}  {name}\n")
        return path

    def run_it(self, *arguments, role="client", root=True, **variables):
        env = {**os.environ, "PATH": self.at("path") + ":" + os.environ["PATH"], "TUNNELMESH_INSTALL_WAIT": "0",
               "HOME": "/home/user", **variables}
        return subprocess.run(
            ["sh", os.path.join(DEPLOY, "install.sh"), *(["--role", role] if role else []),
             *(["--root", self.root] if root else []), *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)

    def install(self, *arguments, version="1.0"):
        done = self.run_it("--bin-dir", self.programs(version), "--config", self.at("client.yaml"), "--token-file",
                           self.at("token"), "--yes", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def files(self):
        return {p: read(p) for p in glob.glob(os.path.join(self.root, "**"), recursive=True) if os.path.isfile(p)}
