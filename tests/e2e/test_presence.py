"""Who is connected where: leases, agent metadata, server nodes, through the API and the real programs."""

import json
import os
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from api_client import admin_api, new_user
from cluster import Cluster
from fleet_agent import FleetAgent
from fleet_versions import V8
from harness import BIN, WAIT_S, MeshTest, wait_until

BASE = "/api/v1"
LEASE_S = 30
BACKOFF_S = 120  # an agent may wait 36 s before it tries again


def connections(api, agent):
    answer = api.get(f"{BASE}/agents/{agent}/connections")
    if answer.status != 200:
        raise AssertionError(answer)
    return answer.data["connections"]


def status(api, agent):
    return api.get(f"{BASE}/agents/{agent}").data["status"]


def close(api, agent, connection, epoch):
    return api.request("DELETE", f"{BASE}/agents/{agent}/connections/{connection}?connectionEpoch={epoch}")


class OneServer(MeshTest):
    options = {
        "start": ("server",),
        "edit": lambda mesh: mesh.append("agent", """  connections:
    min: 2
    max: 2
  metadata:
    - {name: region, source: env, key: TMESH_TEST_REGION}
    - {name: upstream, source: env, key: TMESH_TEST_URL}
    - {name: missing, source: env, key: TMESH_TEST_NOT_THERE}
"""),
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = admin_api(cls.mesh)
        cls.agent = cls.mesh.admin("agent", "list")[0]["id"]

    def start_agent(self):
        self.mesh.start("agent", {"TMESH_TEST_REGION": "eu-1", "TMESH_TEST_URL": "https://me:hunter2@db/x"})
        self.addCleanup(lambda: self.mesh.programs.pop("agent").stop())

    def wait_connections(self, count):
        return wait_until(lambda: (found := connections(self.api, self.agent)) and len(found) == count and found,
                          f"{count} connections")

    def sql(self, text):
        with sqlite3.connect(os.path.join(self.mesh.config, "tunnelmesh.db"), timeout=WAIT_S) as db:
            return db.execute(text).fetchall()

    def test_an_agent_is_online_while_it_is_connected(self):
        wait_until(lambda: status(self.api, self.agent) == "offline", "an agent of before to be offline")
        self.start_agent()
        wait_until(lambda: status(self.api, self.agent) == "online", "the agent to be online")
        found = self.wait_connections(2)
        self.assertEqual({c["local"] for c in found}, {True})
        self.assertEqual({c["healthy"] for c in found}, {True})
        self.assertEqual(len({c["connectionId"] for c in found}), 2)
        summary = self.api.get(f"{BASE}/dashboard/summary").data
        known = len(self.mesh.admin("agent", "list"))
        self.assertEqual(summary["agents"], {"total": known, "enabled": known, "online": 1})
        node = self.api.get(f"{BASE}/server-nodes").data["items"][0]
        self.assertEqual(node["status"], "online")
        self.assertEqual(node["id"], found[0]["serverNodeId"])
        wait_until(lambda: self.api.get(f"{BASE}/server-nodes/{node['id']}").data["activeConnections"] == 2,
                   "both leases")
        self.doCleanups()
        wait_until(lambda: status(self.api, self.agent) == "offline", "the agent to be offline")
        self.assertEqual(connections(self.api, self.agent), [])

    def test_an_agent_that_is_killed_is_offline_at_once(self):
        self.start_agent()
        self.wait_connections(2)
        self.mesh.programs["agent"].stop(signal.SIGKILL)
        wait_until(lambda: status(self.api, self.agent) == "offline", "the agent to be offline")

    def test_metadata_shows_items_and_no_secret(self):
        self.start_agent()
        data = wait_until(lambda: (d := self.api.get(f"{BASE}/agents/{self.agent}/metadata").data).get("items") and d,
                          "the metadata")
        items = {item["name"]: item for item in data["items"]}
        self.assertEqual(items["region"], {"name": "region", "source": "env", "value": "eu-1", "redacted": False})
        self.assertEqual(items["upstream"], {"name": "upstream", "source": "env", "redacted": True})
        self.assertEqual([e["name"] for e in data["errors"]], ["missing"])
        self.assertIn("stream_open_result.v1", data["capabilities"])
        self.assertEqual(len(data["instances"]), 1)
        self.assertFalse(data["stale"])
        for row in self.sql("SELECT * FROM agent_instance_metadata"):
            self.assertNotIn("hunter2", repr(row))
        stranger = new_user(self.api, "stranger")
        for path in ("metadata", "connections"):
            self.assertEqual(stranger.get(f"{BASE}/agents/{self.agent}/{path}").status, 404)

    def test_metadata_of_an_agent_that_left_is_stale(self):
        self.start_agent()
        self.wait_connections(2)
        wait_until(lambda: self.api.get(f"{BASE}/agents/{self.agent}/metadata").data.get("items"), "the metadata")
        self.doCleanups()
        wait_until(lambda: self.api.get(f"{BASE}/agents/{self.agent}/metadata").status == 404, "stale metadata")
        data = self.api.get(f"{BASE}/agents/{self.agent}/metadata?includeStale=true").data
        self.assertTrue(data["stale"])
        self.assertEqual(data["connections"], [])

    def test_an_agent_that_never_reported_has_empty_lists(self):
        made = self.api.post(f"{BASE}/agents", {"name": "quiet"}).data["id"]
        answer = self.api.get(f"{BASE}/agents/{made}/metadata")
        self.assertEqual(answer.status, 200)
        for name in ("items", "errors", "capabilities", "instances", "connections"):
            self.assertEqual(answer.data[name], [])
        self.assertEqual(self.api.get(f"{BASE}/agents/agent-0/metadata").status, 404)

    def test_closing_ends_exactly_that_link(self):
        self.start_agent()
        first, second = self.wait_connections(2)
        self.assertEqual(close(self.api, self.agent, first["connectionId"], first["connectionEpoch"] + 1).status, 409)
        answer = close(self.api, self.agent, first["connectionId"], first["connectionEpoch"])
        self.assertEqual((answer.status, answer.data["closed"]), (200, True))

        def ids():
            return {c["connectionId"] for c in connections(self.api, self.agent)}
        wait_until(lambda: first["connectionId"] not in ids() and len(ids()) == 2, "the link's successor")
        self.assertIn(second["connectionId"], ids())
        again = close(self.api, self.agent, first["connectionId"], first["connectionEpoch"])
        self.assertEqual((again.status, again.data["closed"]), (200, False))

    def test_a_link_of_the_same_name_comes_back_with_a_higher_epoch(self):
        token = self.mesh.admin("token", "create", "--type", "agent", "--agent", self.agent)["secret"]
        before = FleetAgent(V8, self.mesh.http_port, token, self.agent)
        self.addCleanup(before.close)
        old = self.wait_connections(1)[0]
        self.assertEqual(old["connectionId"], "legacy")
        self.assertTrue(close(self.api, self.agent, "legacy", old["connectionEpoch"]).data["closed"])
        wait_until(lambda: before.link.closed, "the end of the link")
        after = FleetAgent(V8, self.mesh.http_port, token, self.agent)
        self.addCleanup(after.close)
        new = self.wait_connections(1)[0]
        self.assertGreater(new["connectionEpoch"], old["connectionEpoch"])
        self.assertEqual(close(self.api, self.agent, "legacy", old["connectionEpoch"]).status, 409)
        after.ping()

    def test_a_server_that_is_killed_starts_with_nobody_online(self):
        self.start_agent()
        self.wait_connections(2)
        wait_until(lambda: self.sql("SELECT COUNT(*) FROM agent_connection_leases") == [(2,)], "both leases")
        self.doCleanups()
        wait_until(lambda: status(self.api, self.agent) == "offline", "the agent to be offline")
        self.start_agent()
        wait_until(lambda: self.sql("SELECT COUNT(*) FROM agent_connection_leases") == [(2,)], "both leases")
        epoch = self.sql("SELECT epoch FROM server_nodes")[0][0]
        self.mesh.programs["server"].stop(signal.SIGKILL)
        self.assertEqual(self.sql("SELECT COUNT(*) FROM agent_connection_leases"), [(2,)], "nobody was there to say it")
        self.doCleanups()
        self.mesh.start("server")
        self.assertEqual(status(self.api, self.agent), "offline")
        self.assertEqual(self.sql("SELECT epoch FROM server_nodes")[0][0], epoch + 1)

    def test_a_server_that_stops_leaves_no_lease(self):
        self.start_agent()
        self.wait_connections(2)
        self.mesh.programs["server"].stop()
        self.assertEqual(self.sql("SELECT COUNT(*) FROM agent_connection_leases"), [(0,)])
        self.mesh.start("server")
        wait_until(lambda: status(self.api, self.agent) == "online", "the agent to be back", BACKOFF_S)

    def test_a_disabled_server_takes_no_links_and_does_not_start(self):
        self.start_agent()
        self.wait_connections(2)
        node = self.mesh.admin("node", "list")[0]["id"]
        self.mesh.admin("node", "disable", node)
        wait_until(lambda: connections(self.api, self.agent) == [], "the links to leave", LEASE_S * 4)
        self.mesh.programs["server"].stop()
        refused = subprocess.run([os.path.join(BIN, "tunnelmesh-server"), "run", "--config", self.mesh.path("server")],
                                 capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("disabled", refused.stderr)
        self.mesh.admin("node", "enable", node)
        self.mesh.start("server")
        wait_until(lambda: status(self.api, self.agent) == "online", "the agent to be back", BACKOFF_S)


class Identity(unittest.TestCase):
    def test_init_node_id_makes_one_identity(self):
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "server.yaml")
            with open(config, "w", encoding="utf-8") as f:
                json.dump({"node": {"id_path": os.path.join(folder, "state", "node-id")}}, f)

            def run():
                return subprocess.run([os.path.join(BIN, "tunnelmesh-server"), "init-node-id", "--config", config],
                                      capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
            first = run()
            self.assertRegex(first, r"^server-[0-9a-f]{32}\n$")
            self.assertEqual(run(), first)


class TwoServers(unittest.TestCase):
    def test_servers_see_each_others_agents(self):
        mesh = Cluster()
        try:
            for name in mesh.names:
                mesh.start(name)
            here, there = (mesh.api(name) for name in mesh.names)
            agent = mesh.admin("agent", "create", "home")["id"]
            token = mesh.admin("token", "create", "--type", "agent", "--agent", agent)["secret"]
            mesh.start_agent("server-a", agent, token)
            wait_until(lambda: status(there, agent) == "online", "the agent to be online at the other server")
            seen = wait_until(lambda: connections(there, agent), "its connection")
            self.assertEqual([(c["serverNodeId"], c["local"], c["healthy"]) for c in seen], [("server-a", False, True)])
            own = connections(here, agent)
            self.assertEqual([(c["serverNodeId"], c["local"]) for c in own], [("server-a", True)])
            self.assertEqual(own[0]["connectionId"], seen[0]["connectionId"])
            for api in (here, there):
                nodes = {n["id"]: n for n in api.get(f"{BASE}/server-nodes").data["items"]}
                self.assertEqual({n["status"] for n in nodes.values()}, {"online"})
                self.assertEqual({name: n["activeConnections"] for name, n in nodes.items()},
                                 {"server-a": 1, "server-b": 0})
                summary = api.get(f"{BASE}/dashboard/summary").data
                self.assertEqual(summary["serverNodes"], {"total": 2, "online": 2})
                self.assertEqual(summary["agents"]["online"], 1)
            wait_until(lambda: there.get(f"{BASE}/agents/{agent}/metadata").data.get("instanceId") == "agent",
                       "its report, which is written beside its lease")

            # Its owner cannot be asked, so nothing happens to the link.
            connection = seen[0]
            answer = close(there, agent, connection["connectionId"], connection["connectionEpoch"])
            self.assertEqual(answer.status, 503)
            self.assertEqual(connections(here, agent)[0]["connectionId"], connection["connectionId"])
            stale = close(there, agent, connection["connectionId"], connection["connectionEpoch"] + 1)
            self.assertEqual(stale.status, 409)
            self.assertTrue(close(here, agent, connection["connectionId"], connection["connectionEpoch"]).data["closed"])
            wait_until(lambda: [c["connectionId"] for c in connections(there, agent)]
                       not in ([], [connection["connectionId"]]), "the link's successor")

            # Nobody tells that this server is gone; its leases run out.
            mesh.programs["server-a"].stop(signal.SIGKILL)
            self.assertEqual(status(there, agent), "online")
            wait_until(lambda: status(there, agent) == "offline", "the lease to expire", LEASE_S * 10)
            self.assertEqual(connections(there, agent), [])
            mesh.start("server-a")
            wait_until(lambda: status(there, agent) == "online", "the agent to be back", BACKOFF_S)

            # Without its database a server keeps its links.
            mesh.db.kill()
            lines = mesh.programs["agent"].text().count("registered")
            mesh.db.start()
            wait_until(lambda: status(there, agent) == "online", "the database to be back", LEASE_S * 4)
            self.assertEqual(mesh.programs["agent"].text().count("registered"), lines, "the link stayed")
        except BaseException:
            print(mesh.logs()[-8000:])
            raise
        finally:
            mesh.close()


if __name__ == "__main__":
    unittest.main()
