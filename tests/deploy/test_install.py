"""deploy/install.sh: a first installation, uninstall, refusals."""

import glob
import os
import re
import subprocess
import unittest

from deploy_files import BIN, DEPLOY, LIMIT_S, need, read, write
from install_support import CONFIG, TOKEN, InstallTest


class Install(InstallTest):
    # --- a first installation ------------------------------------------------------

    def test_everything_is_in_its_place(self):
        done = self.install()
        self.assertIn("tunnelmesh-client 1.0 is installed and runs", done.stdout)
        self.assertEqual(read(self.settings), CONFIG)
        self.assertEqual(os.stat(self.settings).st_mode & 0o777, 0o640)
        self.assertEqual(read(self.token), TOKEN + "\n")
        self.assertEqual(os.stat(self.token).st_mode & 0o777, 0o600)
        self.assertEqual(read(self.unit), read(os.path.join(DEPLOY, "systemd/tunnelmesh-client.service")))
        self.assertEqual(os.stat(self.program).st_mode & 0o777, 0o755)
        calls = read(self.log).splitlines()
        self.assertEqual(calls[:3], ["daemon-reload", "enable tunnelmesh-client", "restart tunnelmesh-client"])
        self.assertIn("is-active --quiet tunnelmesh-client", calls[3:])

    def test_an_archive_is_checked_and_unpacked(self):
        done = self.run_it("--archive", self.archive(), "--config", self.at("client.yaml"), "--token-file", self.at("token"),
                           "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1.0", subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout)
        # As `sha256sum --binary` writes it.
        archive = self.archive("2.0")
        write(self.at("archives", "SHA256SUMS"), read(self.at("archives", "SHA256SUMS")).replace("  ", " *"))
        done = self.run_it("--archive", archive, "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_part_of_an_archive_changes_nothing(self):
        archive = self.archive()
        os.remove(self.at("archives", "SHA256SUMS"))
        os.truncate(archive, os.path.getsize(archive) - 20)
        done = self.run_it("--archive", archive, "--config", self.at("client.yaml"), "--token-file", self.at("token"), "--yes")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertEqual(self.files(), {})

    def test_an_archive_that_is_not_what_the_sums_say_changes_nothing(self):
        archive = self.archive()
        with open(archive, "ab") as f:
            f.write(b"\0")
        before = self.files()
        done = self.run_it("--archive", archive, "--config", self.at("client.yaml"), "--token-file", self.at("token"), "--yes")
        self.assertEqual(done.returncode, 5)
        write(self.at("archives", "SHA256SUMS"), "")
        self.assertEqual(self.run_it("--archive", archive, "--config", self.at("client.yaml"), "--token-file",
                                     self.at("token"), "--yes").returncode, 5)
        self.assertEqual(self.files(), before)

    def test_without_a_service_manager_it_says_how_to_run_it(self):
        os.rmdir(os.path.join(self.root, "run/systemd/system"))
        done = self.install()
        printed = f"{self.program} run --config {self.settings} --token-file {self.token}"
        self.assertIn(f"run it: {printed}\n", done.stdout)
        self.assertFalse(os.path.exists(self.log))
        checked = subprocess.run(printed.replace(" run ", " check-config ").split(), capture_output=True, text=True,
                                 timeout=LIMIT_S, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_no_service_and_no_start(self):
        self.install("--no-service")
        self.assertFalse(os.path.exists(self.unit))
        self.assertFalse(os.path.exists(self.log))
        self.install("--no-start")
        self.assertTrue(os.path.exists(self.unit))
        self.assertNotIn("restart", read(self.log))

    def test_user_mode_stays_in_the_home(self):
        self.install("--mode", "user")
        home = os.path.join(self.root, "home/user")
        self.assertTrue(os.access(os.path.join(home, ".local/bin/tunnelmesh-client"), os.X_OK))
        self.assertEqual(read(os.path.join(home, ".config/tunnelmesh/client.yaml")), CONFIG)
        self.assertTrue(os.path.exists(os.path.join(home, ".config/systemd/user/tunnelmesh-client.service")))
        self.assertIn("--user restart tunnelmesh-client", read(self.log))
        self.assertFalse(os.path.exists(os.path.join(self.root, "etc")))

    def test_openrc_and_procd_have_their_scripts(self):
        os.rmdir(os.path.join(self.root, "run/systemd/system"))
        write(os.path.join(self.root, "sbin/openrc-run"), "#!/bin/sh\n", 0o755)
        self.install("--no-start")
        script = os.path.join(self.root, "etc/init.d/tunnelmesh-client")
        self.assertEqual(read(script), read(os.path.join(DEPLOY, "openrc/tunnelmesh-client")))
        os.remove(os.path.join(self.root, "sbin/openrc-run"))
        write(os.path.join(self.root, "sbin/procd"), "#!/bin/sh\n", 0o755)
        write(os.path.join(self.root, "etc/rc.common"), f'echo "$*" >>"{self.log}"\n')
        done = self.run_it("--bin-dir", self.programs(), "--yes")
        self.assertEqual(read(script), read(os.path.join(DEPLOY, "openwrt/tunnelmesh-client")), done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.root, "usr/bin/tunnelmesh-client")))
        self.assertIn(f"{script} enable\n{script} restart\n{script} running\n", read(self.log))

    def test_a_program_that_openrc_starts_again_and_again_is_rolled_back(self):
        os.rmdir(os.path.join(self.root, "run/systemd/system"))
        write(os.path.join(self.root, "sbin/openrc-run"), "#!/bin/sh\n", 0o755)
        ended = subprocess.Popen(["true"])
        ended.wait()
        child = os.path.join(self.root, "run/openrc/options/tunnelmesh-client/child_pid")
        write(child, str(os.getpid()))
        self.install()
        # The supervisor lives, and so "status" is content; the program does not.
        write(child, str(ended.pid))
        before = self.files()
        done = self.run_it("--bin-dir", self.programs("2.0"), "--yes")
        self.assertEqual(done.returncode, 7, done.stdout)
        self.assertEqual(self.files(), before)

    def test_launchd_is_given_time_to_end_the_old_program(self):
        """`launchctl bootout` returns before it has, and until then `bootstrap` fails."""
        write(self.at("path", "uname"), '#!/bin/sh\n[ "$1" != -s ] || { echo Darwin; exit; }\nexec /bin/uname "$@"\n', 0o755)
        write(self.at("path", "launchctl"), f"""#!/bin/sh
echo "$1" >>"{self.log}"
case $1 in
  bootstrap) [ "$(grep -c bootstrap "{self.log}")" -ge 3 ] || exit 5 ;;
  print) echo '  state = running' ;;
esac
""", 0o755)
        done = self.run_it("--mode", "user", "--bin-dir", self.programs(), "--config", self.at("client.yaml"), "--token-file",
                           self.at("token"), "--yes", root=False, HOME=self.at("a home"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(read(self.log).splitlines()[:4], ["bootout", "bootstrap", "bootstrap", "bootstrap"])
        plist = read(self.at("a home", "Library/LaunchAgents/com.tunnelmesh.client.plist"))
        self.assertIn(f"<string>{self.at('a home')}/.local/bin/tunnelmesh-client</string>", plist)

    def test_names_with_spaces_and_signs(self):
        self.root = self.at("a root & more")
        os.makedirs(os.path.join(self.root, "run/systemd/system"))
        os.rename(self.at("token"), self.at("my token"))
        os.rename(self.at("client.yaml"), self.at("client $x.yaml"))
        folder = self.at("bin 'new'")
        os.rename(self.programs(), folder)
        done = self.run_it("--bin-dir", folder, "--config", self.at("client $x.yaml"), "--token-file", self.at("my token"),
                           "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read(os.path.join(self.root, "etc/tunnelmesh/client.yaml")), CONFIG)
        self.assertTrue(os.access(os.path.join(self.root, "usr/local/bin/tunnelmesh-client"), os.X_OK))

    # --- uninstall -------------------------------------------------------------------------

    def test_uninstall_keeps_the_configuration(self):
        self.install()
        self.install(version="2.0")
        # Whatever was meant by --no-service: the program is not taken from under its service.
        done = self.run_it("--uninstall", "--no-service", "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.files()), sorted([self.settings, self.token]))
        self.assertIn("stop tunnelmesh-client", read(self.log))
        self.assertIn("disable tunnelmesh-client", read(self.log))

    def test_uninstall_of_nothing_and_of_a_service_that_does_not_stop(self):
        self.assertEqual(self.run_it("--uninstall", "--yes").returncode, 8)
        self.install()
        before = self.files()
        self.manager("stop")
        self.assertEqual(self.run_it("--uninstall", "--yes").returncode, 8)
        self.assertEqual(self.files(), before)

    # --- refusals ----------------------------------------------------------------------------

    def test_secrets_are_never_flags(self):
        for flag in ("--token", "--client.token", "--password", "--token=" + TOKEN, "--mysql-dsn", "--encryption-key"):
            done = self.run_it(flag, TOKEN, "--yes")
            self.assertEqual(done.returncode, 2, flag)
            self.assertIn("secrets are never flags", done.stderr)
            self.assertNotIn(TOKEN, done.stdout + done.stderr)

    def test_wrong_arguments(self):
        for arguments in (["--role"], ["--role", "other"], ["--mode", "x"], ["--what"], ["--config", ""],
                          ["--archive", "a", "--bin-dir", "b"], ["--reconfigure"]):
            self.assertEqual(self.run_it(*arguments, "--yes").returncode, 2, arguments)
        self.assertEqual(self.run_it("--yes", role=None).returncode, 2)
        self.assertEqual(self.run_it("--token-file", "x", "--yes", role="server").returncode, 2)
        self.assertEqual(self.run_it("--bin-dir", self.programs(), "--config", self.at("client.yaml"), "--token-file",
                                     self.at("token")).returncode, 2, "nobody can be asked")
        self.assertEqual(self.files(), {})

    def test_preflight(self):
        missing = ["--bin-dir", self.programs(), "--yes"]
        for arguments in (["--config", self.at("client.yaml")],  # no token
                          ["--token-file", self.at("token")],  # no configuration
                          ["--config", self.at("none"), "--token-file", self.at("token")],
                          ["--config", self.at("client.yaml"), "--token-file", self.at("none")]):
            done = self.run_it(*missing, *arguments)
            self.assertEqual(done.returncode, 3, arguments)
        done = self.run_it("--bin-dir", self.scratch, "--config", self.at("client.yaml"), "--token-file", self.at("token"),
                           "--yes")
        self.assertEqual(done.returncode, 3)
        write(self.at("broken", "tunnelmesh-client"), "#!/bin/sh\nexit 1\n", 0o755)
        done = self.run_it("--bin-dir", self.at("broken"), "--config", self.at("client.yaml"), "--token-file",
                           self.at("token"), "--yes")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.files(), {})

    def test_a_program_for_another_machine_is_not_run(self):
        """Some shells take it for a script and run what they find in it."""
        with open(os.path.join(BIN, "tunnelmesh-client"), "rb") as f:
            head = bytearray(f.read(64))
        head[18] = 183 if head[18] != 183 else 62
        foreign = self.at("foreign", "tunnelmesh-client")
        write(foreign, "", 0o755)
        with open(foreign, "wb") as f:
            f.write(head + f"\n: >{self.at('was-run')}\nexit 0\n".encode())
        done = self.run_it("--bin-dir", self.at("foreign"), "--config", self.at("client.yaml"), "--token-file",
                           self.at("token"), "--yes")
        self.assertEqual(done.returncode, 3)
        self.assertIn("is for another kind of machine", done.stderr)
        self.assertFalse(os.path.exists(self.at("was-run")))
        self.assertEqual(self.files(), {})

    def test_a_bare_environment_is_enough(self):
        """As under a service manager or `su`: no HOME, and the folders of root's programs not in the path."""
        path = self.at("path") + ":/usr/bin:/bin"
        done = subprocess.run(
            ["sh", os.path.join(DEPLOY, "install.sh"), "--role", "client", "--root", self.root, "--bin-dir", self.programs(),
             "--config", self.at("client.yaml"), "--token-file", self.at("token"), "--yes"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
            env={"PATH": path, "TUNNELMESH_INSTALL_WAIT": "0"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = subprocess.run(["sh", os.path.join(DEPLOY, "install.sh"), "--role", "client", "--mode", "user", "--yes"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              env={"PATH": path})
        self.assertEqual(done.returncode, 3)
        self.assertIn("HOME", done.stderr)

    def test_links_are_put_back_as_links(self):
        self.install()
        elsewhere = self.at("managed.yaml")
        os.rename(self.settings, elsewhere)
        os.symlink(elsewhere, self.settings)
        self.manager("restart")
        write(self.at("client.yaml"), CONFIG + "  log_level: debug\n")
        done = self.run_it("--bin-dir", self.programs("2.0"), "--config", self.at("client.yaml"), "--reconfigure", "--yes")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(os.readlink(self.settings), elsewhere)
        self.assertEqual(read(elsewhere), CONFIG)

    def test_agent_and_server_too(self):
        write(self.at("agent.yaml"), "agent:\n  server_url: wss://mesh.example.com\n  id: agent-1\n")
        done = self.run_it("--bin-dir", BIN, "--config", self.at("agent.yaml"), "--token-file", self.at("token"), "--yes",
                           role="agent")
        self.assertEqual(done.returncode, 0, done.stderr)
        write(self.at("server.yaml"), "server:\n  http_addr: 127.0.0.1:8000\n")
        done = self.run_it("--bin-dir", BIN, "--config", self.at("server.yaml"), "--yes", role="server")
        self.assertEqual(done.returncode, 0, done.stderr)
        for role in ("agent", "server"):
            self.assertTrue(os.path.exists(os.path.join(self.root, f"etc/systemd/system/tunnelmesh-{role}.service")))

    def test_credentials_of_the_service_count_when_the_configuration_is_checked(self):
        write(self.at("server.yaml"), "mode: cluster\nstorage: {driver: mysql}\nserver: {http_addr: '127.0.0.1:8000'}\n")
        arguments = ["--bin-dir", BIN, "--config", self.at("server.yaml"), "--yes"]
        self.assertEqual(self.run_it(*arguments, role="server").returncode, 6, "there is no DSN")
        secret = os.path.join(self.root, "etc/tunnelmesh/my dsn")
        write(secret, "me:secret@tcp(127.0.0.1:3306)/mesh\n", 0o600)
        write(os.path.join(self.root, "etc/systemd/system/tunnelmesh-server.service.d/override.conf"),
              "[Service]\nLoadCredential=tunnelmesh-server.mysql-dsn:/etc/tunnelmesh/my dsn\n")
        done = self.run_it(*arguments, role="server")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("secret", done.stdout + done.stderr)

    def test_it_is_plain_shell(self):
        shellcheck = need("shellcheck")
        scripts = [os.path.join(DEPLOY, "install.sh"), *glob.glob(os.path.join(DEPLOY, "openrc/*")),
                   *glob.glob(os.path.join(DEPLOY, "openwrt/*"))]
        done = subprocess.run([shellcheck, *scripts], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_exit_code_is_described(self):
        text = read(os.path.join(DEPLOY, "install.sh"))
        head = text[:text.index("set -eu")]
        for code in set(re.findall(r"\bdie (\d)", text)):
            self.assertRegex(head, rf"[ ,]{code} ")


if __name__ == "__main__":
    unittest.main()
