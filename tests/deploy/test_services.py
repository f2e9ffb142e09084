"""Service files: what their own tools say about them, and that none carries a secret (LESSONS P-K7);
what dies is started again (LESSONS P-L3)."""

import glob
import os
import re
import shutil
import subprocess
import unittest

from deploy_files import BIN, DEPLOY, LIMIT_S, ScratchTest, need, read, write

ROLES = ("client", "agent", "server")
EXPOSURE_MAX = 2.0


def run(*command, **kw):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, **kw)


class Systemd(ScratchTest):
    def unit(self, role):
        return os.path.join(DEPLOY, "systemd", f"tunnelmesh-{role}.service")

    def test_verify_has_nothing_to_say(self):
        analyze = need("systemd-analyze")
        units = [self.unit(role) for role in ROLES] + sorted(glob.glob(os.path.join(DEPLOY, "systemd", "user", "*")))
        self.assertEqual(len(units), 5)
        for number, unit in enumerate(units):
            with self.subTest(unit=unit):
                # The programs are where they were built.
                text = read(unit).replace("/usr/local/bin/", BIN + "/").replace("%h/.local/bin/", BIN + "/")
                copy = self.at(str(number), os.path.basename(unit))
                write(copy, text)
                done = run(analyze, "verify", *(["--user"] if "/user/" in unit else []), copy,
                           env={**os.environ, "XDG_RUNTIME_DIR": self.scratch})
                self.assertEqual((done.returncode, done.stderr.strip()), (0, ""))

    def test_verify_would_notice_a_mistake(self):
        analyze = need("systemd-analyze")
        write(self.at("x.service"), "[Service]\nExecStart=/bin/true\nProtectSytem=strict\n")
        self.assertIn("ProtectSytem", run(analyze, "verify", self.at("x.service")).stderr)

    def test_exposure_is_small(self):
        analyze = need("systemd-analyze")
        for role in ROLES:
            done = run(analyze, "security", "--offline=true", self.unit(role))
            level = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout).group(1))
            self.assertLessEqual(level, EXPOSURE_MAX, role)

    def test_names_and_duties(self):
        for role in ROLES:
            text = read(self.unit(role))
            user = "tunnelmesh" if role == "server" else f"tunnelmesh-{role}"
            program = f"/usr/local/bin/tunnelmesh-{role}"
            for line in (f"User={user}", f"StateDirectory={user}", "Restart=on-failure", "RestartSec=5s",
                         "LimitNOFILE=65536", f"ExecStart={program} run --config /etc/tunnelmesh/{role}.yaml",
                         "ExecReload=/bin/kill -HUP $MAINPID", "WantedBy=multi-user.target"):
                self.assertIn(f"\n{line}\n", text, role)
        for role in ("client", "agent"):
            text = read(self.unit(role))
            # Where `status` looks for the socket, and the name under which the program looks for its token.
            self.assertIn(f"\nRuntimeDirectory=tunnelmesh/{role}\n", text)
            self.assertIn(f"\nLoadCredential=tunnelmesh-{role}.token:/etc/tunnelmesh/{role}-token\n", text)

    def test_only_the_program_that_runs_needs_credentials(self):
        """ExecStartPre= has them from systemd 252 on, a second one from 254, ExecReload= (under ProtectSystem=) from
        257: a check there refuses every start or reload on the others."""
        for role in ROLES:
            commands = re.findall(r"(?m)^Exec(?!Start=)\w+=(.*)$", read(self.unit(role)))
            self.assertIn("/bin/kill -HUP $MAINPID", commands)
            for command in commands:
                self.assertNotRegex(command, r"tunnelmesh-\w+ (?!init-node-id)", role)

    def test_the_identity_of_a_server_needs_no_credential(self):
        write(self.at("server.yaml"), f"mode: cluster\nnode: {{id_path: {self.at('node-id')}}}\nstorage: {{driver: mysql}}\n"
              "server: {token_encryption_key_file: /nonexistent/of-root-only}\n")
        done = run(os.path.join(BIN, "tunnelmesh-server"), "init-node-id", "--config", self.at("server.yaml"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_group_can_be_given_to_a_socket(self):
        """In a user namespace of its own (PrivateUsers=) every group but the service's own is unmapped."""
        text = read(self.unit("client"))
        self.assertIn("\nSystemCallFilter=@chown\n", text)
        self.assertNotRegex(text, r"(?m)^PrivateUsers")

    def test_the_credential_is_the_token(self):
        folder = self.at("credentials")
        for role in ("client", "agent"):
            write(os.path.join(folder, f"tunnelmesh-{role}.token"), "t" * 43 + "\n", 0o600)
            config = self.at(f"{role}.yaml")
            write(config, f"{role}:\n  server_url: wss://mesh.example.com\n  token_file: /nonexistent/of-root-only\n" +
                  ("  id: agent-1\n" if role == "agent" else
                   "  tunnels: [{protocol: socks5, listen: 127.0.0.1:0, agent_id: agent-1}]\n"))
            done = run(os.path.join(BIN, f"tunnelmesh-{role}"), "check-config", "--config", config,
                       env={**os.environ, "CREDENTIALS_DIRECTORY": folder})
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Others(ScratchTest):
    def test_plists_parse(self):
        plistutil = need("plistutil")
        for role in ("client", "agent"):
            path = os.path.join(DEPLOY, "macos", f"tunnelmesh-{role}.plist")
            done = run(plistutil, "-i", path, "-f", "json", "-o", self.at("out.json"))
            self.assertEqual(done.returncode, 0, done.stderr)
            text = read(path)
            self.assertIn(f"<string>com.tunnelmesh.{role}</string>", text)
            self.assertIn("@HOME@/Library/Logs/", text)

    def test_winsw_files_are_xml_and_restart_on_failure(self):
        xmllint = need("xmllint")
        for role in ("client", "agent"):
            path = os.path.join(DEPLOY, "windows", f"tunnelmesh-{role}-service.xml")
            self.assertEqual(run(xmllint, "--noout", path).stderr, "")
            for xpath, value in (("string(/service/id)", f"tunnelmesh-{role}"),
                                 ("string(/service/onfailure/@action)", "restart"),
                                 ("string(/service/executable)",
                                  rf"C:\Program Files\TunnelMesh\tunnelmesh-{role}.exe"),
                                 ("string(/service/arguments)",
                                  rf'run --config "C:\ProgramData\TunnelMesh\{role}.yaml"')):
                self.assertEqual(run(xmllint, "--xpath", xpath, path).stdout.strip(), value)

    def test_init_scripts_are_shell(self):
        scripts = sorted(glob.glob(os.path.join(DEPLOY, "openrc", "*")) + glob.glob(os.path.join(DEPLOY, "openwrt", "*")))
        self.assertEqual(len(scripts), 5)
        for script in scripts:
            self.assertEqual(run("sh", "-n", script).stderr, "", script)
            self.assertTrue(os.access(script, os.X_OK), script)
            self.assertIn("check-config --config", read(script))

    def start_pre(self, role, knows_capabilities=True):
        """What OpenRC's functions are asked for before the start, and the capabilities after it."""
        write(self.at("supervise-daemon"), f"#!/bin/sh\n[ $2 = --capabilities ] && {str(knows_capabilities).lower()}\n", 0o755)
        script = os.path.join(DEPLOY, "openrc", f"tunnelmesh-{role}")
        done = run("sh", "-euc", 'checkpath() { echo "checkpath $*"; }; . "$1"; command=:; start_pre; '
                   'echo "capabilities ${capabilities-none}"', "sh", script,
                   env={"PATH": self.scratch + ":/usr/bin:/bin", "RC_SVCNAME": f"tunnelmesh-{role}"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_openrc_makes_the_log_and_the_folders_of_the_service(self):
        """supervise-daemon opens the log as the service's user; older ones know no output_logger."""
        for role in ROLES:
            user = "tunnelmesh" if role == "server" else f"tunnelmesh-{role}"
            lines = self.start_pre(role)
            self.assertIn(f"checkpath -f -m 0640 -o {user}:{user} /var/log/tunnelmesh-{role}.log", lines)
            self.assertIn(f"checkpath -d -m 0700 -o {user}:{user} /var/lib/{user}", lines)
            text = read(os.path.join(DEPLOY, "openrc", f"tunnelmesh-{role}"))
            for stream in ("output", "error"):
                self.assertIn(f"\n{stream}_log=/var/log/tunnelmesh-{role}.log\n", text)

    def test_openrc_gets_the_capability_of_a_server_where_it_knows_such(self):
        """One that does not starts nothing that asks for one (Debian's)."""
        self.assertIn("capabilities ^cap_net_bind_service", self.start_pre("server"))
        self.assertIn("capabilities none", self.start_pre("server", knows_capabilities=False))
        self.assertIn("capabilities none", self.start_pre("client"))

    def test_nothing_puts_a_secret_on_a_command_line_or_into_a_file_of_the_service(self):
        files = [p for p in glob.glob(os.path.join(DEPLOY, "**", "*"), recursive=True) if os.path.isfile(p)]
        services = [p for p in files if os.path.dirname(p) != DEPLOY and "/examples/" not in p]
        self.assertEqual(len(services), 14)
        for path in services:
            for line in read(path).splitlines():
                # A token's file may be named, a token may not.
                self.assertIsNone(re.search(r"--\S*(token|password|dsn)(?!-file)", line), f"{path}: {line}")
                self.assertIsNone(re.search(r"(TOKEN|PASSWORD|DSN)[\"' ]*[=:]", line.replace("_TOKEN_FILE", "")),
                                  f"{path}: {line}")


class PowerShell(ScratchTest):
    """No PowerShell comes with Debian 12: its structure is looked at, and its syntax where there is one."""

    text = read(os.path.join(DEPLOY, "install.ps1"))

    def code(self):
        """Without comments and without what stands in strings."""
        without = re.sub(r"(?m)^\s*#.*$", "", self.text)
        return re.sub(r"'[^'\n]*'|\"(?:`.|[^\"`\n])*\"", "''", without)

    def test_brackets_are_balanced(self):
        stack = []
        for c in self.code():
            if c in "({[":
                stack.append(c)
            elif c in ")}]":
                self.assertTrue(stack and stack.pop() + c in ("()", "{}", "[]"))
        self.assertEqual(stack, [])

    def test_it_has_the_roles_and_exit_codes_of_the_shell_installer(self):
        shell = read(os.path.join(DEPLOY, "install.sh"))
        codes = set(re.findall(r"\bDie (\d)", self.text))
        self.assertEqual(codes, set(re.findall(r"\bdie(?:_undone)? (\d)", shell)))
        self.assertEqual(codes, {"2", "3", "5", "6", "7", "8"})
        self.assertIn("[ValidateSet('client', 'agent', 'server')][string]$Role", self.text)

    def test_no_parameter_takes_a_secret(self):
        block = self.text[self.text.index("param("):self.text.index("Set-StrictMode")]
        names = re.findall(r"\$(\w+)", block)
        self.assertEqual([n for n in names if re.search(r"(?i)token|password|secret|dsn|key", n)], ["TokenFile"])

    def test_every_function_that_is_called_is_there(self):
        defined = set(re.findall(r"(?m)^\s*function ([\w-]+)", self.text))
        for name in ("Say", "Die", "Confirm-Change", "Invoke-Wrapper", "Test-Running", "Start-AndWatch",
                     "Protect-Secret", "Restore-Files", "Undo-Everything"):
            self.assertIn(name, defined)
            self.assertGreater(len(re.findall(rf"\b{name}\b", self.text)), 1, name)

    def test_it_parses(self):
        shell = shutil.which("pwsh") or shutil.which("powershell")
        if shell is None:
            self.skipTest("deferred: there is no PowerShell; its structure was looked at")
        path = os.path.join(DEPLOY, "install.ps1")
        done = run(shell, "-NoProfile", "-Command",
                   f"$e = $null; [void][Management.Automation.Language.Parser]::ParseFile('{path}', [ref]$null, "
                   "[ref]$e); $e.Count")
        self.assertEqual(done.stdout.strip(), "0", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
