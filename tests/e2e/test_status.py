"""What running programs tell about themselves, and what `explain` finds out about one open."""

import json
import os
import re
import signal
import subprocess
import unittest

from harness import (BIN, WAIT_S, EchoTarget, MeshTest, SocksRefused, closed_port, free_port, socks_connect, started,
                     wait_until)


class Status(MeshTest):
    def command(self, program, *arguments, config=True):
        line = [os.path.join(BIN, f"tunnelmesh-{program}"), *arguments]
        if config:
            line += ["--config", self.mesh.path(program)]
        return subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=False,
                              env={**os.environ, "XDG_RUNTIME_DIR": self.mesh.folder})

    def report(self, program):
        return self.mesh.status(program)

    def test_a_client_tells_its_links_and_entries(self):
        before = self.report("client")
        target = EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port), \
                    self.assertRaises(SocksRefused):
                socks_connect(self.mesh.socks_port, "127.0.0.1", closed_port())
            # The stream above still lives in the report that is asked for inside.
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port):
                report = self.report("client")
        finally:
            target.close()
        self.assertEqual(report["program"], "tunnelmesh-client")
        self.assertFalse(report["stopping"])
        link = report["links"][0]
        self.assertEqual((link["agent"], link["slot"], link["state"], link["open_mode"]),
                         (self.mesh.agent_id, 1, "up", "strict"))
        self.assertGreaterEqual(link["streams"], 1)
        entry, old = report["entries"][0], before["entries"][0]
        self.assertEqual(entry["protocol"], "socks5")
        self.assertEqual(entry["listen"], f"127.0.0.1:{self.mesh.socks_port}")
        self.assertEqual(entry["accepted"] - old["accepted"], 3)
        self.assertEqual(entry["opens"] - old["opens"], 2)
        self.assertEqual(entry["refused"] - old["refused"], 1)
        self.assertEqual(report["totals"]["links_up"], 1)

    def test_an_agent_tells_its_links(self):
        report = self.report("agent")
        self.assertEqual(report["agent"], self.mesh.agent_id)
        self.assertEqual([(x["state"], x["open_mode"]) for x in report["links"]], [("up", "strict")])
        self.assertEqual(report["entries"], [])

    def test_text_is_for_people(self):
        done = self.command("client", "status")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"tunnelmesh-client \S+, pid \d+, up \d+s\n")
        self.assertRegex(done.stdout, rf"\n{self.mesh.agent_id} +1 +up ")
        self.assertRegex(done.stdout, r"\nENTRY +PROTOCOL +LISTEN ")

    def test_neither_a_secret_nor_a_target_is_told(self):
        target = EchoTarget(host="127.0.0.1")
        try:
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port):
                text = self.command("client", "status", "--json").stdout + self.command("agent", "status", "--json").stdout
        finally:
            target.close()
        self.assertNotIn(f":{target.port}", text)
        for program in ("client", "agent"):
            for secret in re.findall(r"token: *\"?([^\s\"]{20,})", self.mesh.read(program)):
                self.assertNotIn(secret, text)

    def test_watch_goes_on_until_it_is_interrupted(self):
        watch = started(subprocess.Popen(
            [os.path.join(BIN, "tunnelmesh-client"), "status", "--watch", "--json", "--config", self.mesh.path("client")],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_RUNTIME_DIR": self.mesh.folder}))
        lines = [json.loads(watch.stdout.readline()) for _ in range(2)]
        self.assertEqual({x["program"] for x in lines}, {"tunnelmesh-client"})
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(WAIT_S), -signal.SIGINT)
        watch.stdout.close()

    def test_when_nothing_runs_there_the_error_says_so(self):
        done = self.command("agent", "status", "--agent.status_socket", os.path.join(self.mesh.folder, "none.sock"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("no tunnelmesh-agent runs with the status socket", done.stderr)

    def test_the_file_of_a_killed_program_is_replaced(self):
        self.mesh.programs["client"].stop(signal.SIGKILL)
        self.assertIsNone(self.report("client"))
        self.mesh.start("client")
        self.mesh.wait_ready()
        self.assertEqual(self.report("client")["links"][0]["state"], "up")
        sockets = os.listdir(os.path.join(self.mesh.folder, "tunnelmesh", "client"))
        self.assertEqual(sockets, ["status.sock"])

    def test_an_outage_shows_with_its_stage_and_the_reconnect_is_counted(self):
        was = self.report("client")["links"][0]["reconnects"]
        self.mesh.programs["server"].stop()
        link = wait_until(lambda: next((x for x in self.report("client")["links"]
                                        if x["state"] == "connecting" and (x["last_error"] or {}).get("stage") == "connect"), None),
                          "the failed attempt")
        self.assertEqual(link["last_error"]["code"], "refused")
        self.assertIsNone(link["rtt_us"])
        self.mesh.start("server")
        self.mesh.wait_ready()
        self.assertEqual(self.report("client")["links"][0]["reconnects"], was + 1)

    # --- explain ---------------------------------------------------------------------

    def explain(self, target, *more, agent=None):
        done = self.command("client", "explain", target, "--agent", agent or self.mesh.agent_id, "--json", *more)
        return done.returncode, json.loads(done.stdout), done.stderr

    def test_explain_times_every_stage(self):
        target = EchoTarget()
        try:
            code, answer, err = self.explain(f"127.0.0.1:{target.port}")
        finally:
            target.close()
        self.assertEqual(code, 0, err)
        self.assertEqual([s["stage"] for s in answer["stages"]], ["dns", "connect", "upgrade", "hello", "open"])
        self.assertGreater(answer["stages"][-1]["us"], 0)
        self.assertEqual((answer["reached"], answer["code"]), (True, "ok"))
        self.assertEqual(err, "")

    def test_explain_gives_stage_code_and_what_to_do(self):
        for target, agent, stage, code in (
            (f"127.0.0.1:{closed_port()}", None, "connect", "connection_refused"),
            ("no-such-host.invalid:80", None, "dns", "host_unreachable"),
            ("169.254.169.254:80", None, "policy", "forbidden"),
            ("127.0.0.1:80", "agent-0000", "authorization", "forbidden"),
        ):
            with self.subTest(target=target, agent=agent):
                exit_code, answer, _ = self.explain(target, agent=agent)
                self.assertEqual(exit_code, 1)
                self.assertEqual((answer["reached"], answer["stage"], answer["code"]), (False, stage, code))
                self.assertTrue(answer["advice"])

    def test_explain_says_why_there_is_no_link(self):
        code, answer, _ = self.explain("127.0.0.1:80", "--server-url", f"ws://127.0.0.1:{free_port()}")
        self.assertEqual((code, answer["stage"], answer["code"]), (1, "connect", "refused"))
        bad = os.path.join(self.mesh.folder, "bad-token")
        with open(bad, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("not-the-token-of-anybody\n")
        code, answer, _ = self.explain("127.0.0.1:80", "--token-file", bad)
        self.assertEqual((code, answer["stage"]), (1, "upgrade"))
        self.assertEqual(answer["advice"], "the server does not accept the token")

    def test_explain_needs_a_host_and_a_port(self):
        for wrong in ("somewhere", ":80", "h:0"):
            done = self.command("client", "explain", wrong, "--agent", self.mesh.agent_id)
            self.assertEqual((done.returncode, done.stderr), (2, "explain: HOST:PORT is needed\n"), wrong)

    def test_the_administrator_learns_which_rule_it_was(self):
        token = next(t for t in self.mesh.admin("token", "list") if t["type"] == "client")
        done = self.command("server", "explain", "127.0.0.1:80", "--agent", "home", "--token-id", token["id"], "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)["answers"][0]
        self.assertTrue(answer["allowed"])
        self.assertRegex(answer["reason"], "^allowed by policy-")
        self.mesh.admin("agent", "disable", "home")
        try:
            done = self.command("server", "explain", "127.0.0.1:80", "--agent", "home", "--token-id", token["id"])
            self.assertEqual(done.returncode, 1)
            self.assertIn("the agent is disabled", done.stdout)
        finally:
            self.mesh.admin("agent", "enable", "home")
            self.mesh.wait_ready()


if __name__ == "__main__":
    unittest.main()
