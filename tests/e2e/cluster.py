"""Several servers on one private MariaDB, for the end-to-end tests.

The administrator, agents and tokens are made by the commands of the first server. Whatever
is started ends with close().
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from api_client import Api  # noqa: E402
from harness import BIN, WAIT_S, Program, can_connect, free_port, wait_until  # noqa: E402
from private_mariadb import PrivateMariadb, is_available  # noqa: E402


class Cluster:
    def __init__(self, count=2, more="", tls=False):
        if not is_available():
            if os.environ.get("TUNNELMESH_ALLOW_DEFERRED") == "1":
                raise unittest.SkipTest("deferred: no MariaDB is installed")
            raise AssertionError("deferred: no MariaDB is installed; TUNNELMESH_ALLOW_DEFERRED=1 accepts that")
        self.folder = tempfile.mkdtemp(prefix="tmesh-cluster-")
        self.db = PrivateMariadb(tls)
        self.database = self.db.create_database()
        dsn = self.db.tls_only_dsn(self.database) if tls else self.db.dsn(self.database)
        mysql = f'dsn: "{dsn}"' + (f'\n    tls: true\n    ca: "{self.db.ca}"' if tls else "")
        self.names = [f"server-{chr(ord('a') + i)}" for i in range(count)]
        self.ports = {name: free_port() for name in self.names}
        self.programs = {}
        for name in self.names:
            os.mkdir(self.path(name))
            self.write(name, "server.yaml", f"""mode: cluster
node:
  id: {name}
storage:
  driver: mysql
  mysql:
    {mysql}
server:
  http_addr: "127.0.0.1:{self.ports[name]}"
{more}""")
        self.administrator = self.admin("admin", "bootstrap")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, file, text):
        with open(self.path(name, file), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name, file)

    def admin(self, *arguments):
        done = subprocess.run(
            [os.path.join(BIN, "tunnelmesh-server"), *arguments, "--config",
             self.path(self.names[0], "server.yaml"), "--json"],
            capture_output=True, text=True, timeout=WAIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def start(self, name):
        """A server; again after it was killed."""
        self.programs[name] = Program("server", ["run", "--config", self.path(name, "server.yaml")], self.path(name))
        wait_until(lambda: can_connect(self.ports[name]) or self.dead(name), f"the listener of {name}")
        return self.programs[name]

    def start_agent(self, server, agent_id, token, name="agent", more=""):
        os.makedirs(self.path(name), exist_ok=True)
        config = self.write(name, "agent.yaml", f"""agent:
  server_url: "ws://127.0.0.1:{self.ports[server]}/ws/agent"
  id: "{agent_id}"
  instance_id: "{name}"
  token: "{token}"
{more}""")
        self.programs[name] = Program("agent", ["run", "--config", config], self.path(name))
        return self.programs[name]

    def start_client(self, server, agent_id, token, name="client"):
        """Gives the port of its SOCKS5 entry."""
        os.makedirs(self.path(name), exist_ok=True)
        port = free_port()
        config = self.write(name, "client.yaml", f"""client:
  server_url: "ws://127.0.0.1:{self.ports[server]}/ws/client"
  instance_id: "{name}"
  token: "{token}"
  tunnels:
    - name: socks5
      protocol: socks5
      listen: "127.0.0.1:{port}"
      agent_id: "{agent_id}"
""")
        self.programs[name] = Program("client", ["run", "--config", config], self.path(name))
        wait_until(lambda: can_connect(port) or self.dead(name), f"the entry of {name}")
        return port

    def api(self, name):
        """The API of that server, with the administrator logged in."""
        api = Api(self.ports[name])
        answer = api.login(self.administrator["username"], self.administrator["password"])
        if answer.status != 200:
            raise AssertionError(f"the administrator cannot log in: {answer}")
        return api

    def dead(self, name):
        if not self.programs[name].alive():
            raise AssertionError(f"{name} ended:\n{self.programs[name].text()}")
        return False

    def logs(self):
        return "".join(f"--- {name}\n{p.text()}" for name, p in self.programs.items())

    def close(self, killed=()):
        """`killed`: programs that did not end by themselves."""
        codes = {name: p.stop() for name, p in reversed(self.programs.items())}
        logs = self.logs()
        self.db.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        bad = {name: code for name, code in codes.items() if code != 0 and name not in killed}
        if bad or "ERROR: AddressSanitizer" in logs or "runtime error:" in logs or "handles_leaked" in logs:
            raise AssertionError(f"exit codes {codes}\n{logs}")
