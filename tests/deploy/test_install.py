"""deploy/install.sh on a scratch root: install, upgrade, rollback, uninstall, refusals.

The service manager is a systemctl of the test's own, which writes down what it is told and
may be made to fail.
"""

import glob
import hashlib
import os
import re
import subprocess
import tarfile
import unittest

from deploy_files import BIN, DEPLOY, LIMIT_S, ScratchTest, need, read, write

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


class Install(ScratchTest):
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

    # --- upgrade and rollback ----------------------------------------------------------

    def test_again_is_an_upgrade_that_keeps_the_configuration(self):
        self.install()
        write(self.settings, CONFIG + "  log_level: debug\n")
        self.install(version="2.0")
        self.assertIn("log_level: debug", read(self.settings))
        self.assertIn("2.0", read(self.program))
        backups = glob.glob(self.program + ".bak-*")
        self.assertEqual(len(backups), 1)
        self.assertRegex(backups[0], r"\.bak-\d{8}T\d{6}Z$")
        self.assertIn("1.0", read(backups[0]))

    def test_reconfigure_replaces_it_and_keeps_the_old_one(self):
        self.install()
        write(self.settings, CONFIG + "  log_level: debug\n")
        self.install("--reconfigure")
        self.assertEqual(read(self.settings), CONFIG)
        backup, = glob.glob(self.settings + ".bak-*")
        self.assertIn("log_level: debug", read(backup))

    def test_three_old_programs_are_kept(self):
        self.install()
        for second in range(5):
            write(f"{self.program}.bak-2020010{second}T000000Z", "old")
        self.install(version="2.0")
        backups = sorted(glob.glob(self.program + ".bak-*"))
        self.assertEqual(len(backups), 3)
        self.assertIn("1.0", read(backups[-1]))

    def test_a_configuration_that_the_new_program_refuses_changes_nothing(self):
        self.install()
        before = self.files()
        write(self.at("client.yaml"), CONFIG + "  no_such_key: 1\n")
        done = self.run_it("--bin-dir", self.programs("2.0"), "--config", self.at("client.yaml"), "--reconfigure",
                           "--token-file", self.at("token"), "--yes")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("no_such_key", done.stderr)
        self.assertEqual(self.files(), before)

    def test_a_first_configuration_that_is_refused_leaves_nothing(self):
        write(self.at("client.yaml"), "client: [")
        done = self.run_it("--bin-dir", self.programs(), "--config", self.at("client.yaml"), "--token-file", self.at("token"),
                           "--yes")
        self.assertEqual(done.returncode, 6)
        self.assertNotIn("nothing was changed", done.stderr, "folders and the service's user are there now")
        self.assertEqual(self.files(), {})

    def test_a_service_that_does_not_start_is_rolled_back(self):
        for fails in ("restart", "is-active", "enable", "daemon-reload"):
            with self.subTest(fails=fails):
                self.manager()
                self.install()
                before = self.files()
                self.manager(fails)
                write(self.at("token-2"), "another\n", 0o600)
                done = self.run_it("--bin-dir", self.programs("2.0"), "--token-file", self.at("token-2"), "--yes")
                self.assertEqual(done.returncode, 7, done.stderr)
                self.assertEqual(self.files(), before)
                self.assertEqual(read(self.log).splitlines()[-1], "restart tunnelmesh-client", "the old one runs again")

    def test_a_first_service_that_does_not_start_leaves_no_program(self):
        self.manager("restart")
        done = self.run_it("--bin-dir", self.programs(), "--config", self.at("client.yaml"), "--token-file", self.at("token"),
                           "--yes")
        self.assertEqual(done.returncode, 7)
        self.assertEqual(self.files(), {})

    def test_whatever_fails_on_the_way_is_undone(self):
        self.install()
        before = self.files()
        write(self.at("token-2"), "another\n", 0o600)
        # The program, the configuration and the token are replaced by the time at which this shows.
        os.rename(os.path.dirname(self.unit), self.at("units"))
        write(os.path.dirname(self.unit), "not a folder")
        done = self.run_it("--bin-dir", self.programs("2.0"), "--config", self.at("client.yaml"), "--reconfigure",
                           "--token-file", self.at("token-2"), "--yes")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("program, configuration and service are as they were", done.stderr)
        os.remove(os.path.dirname(self.unit))
        os.rename(self.at("units"), os.path.dirname(self.unit))
        self.assertEqual(self.files(), before)

    def test_an_interrupted_upgrade_is_undone(self):
        for at in ("daemon-reload", "restart"):
            with self.subTest(at=at):
                self.manager()
                self.install()
                before = self.files()
                write(self.at("path", "systemctl"), SYSTEMCTL.format(log=self.log, fails="nothing").replace(
                    "exit 0", f'[ "$1" != {at} ] || kill -TERM $PPID\nexit 0'), 0o755)
                write(self.at("token-2"), "another\n", 0o600)
                done = self.run_it("--bin-dir", self.programs("2.0"), "--token-file", self.at("token-2"), "--yes")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(self.files(), before)
                self.assertEqual(read(self.log).splitlines()[-1], "restart tunnelmesh-client", "the old one runs again")

    def test_an_upgrade_keeps_a_service_stopped_or_disabled(self):
        self.install()
        for disabled, state, refused in ((True, "inactive", False), (False, "inactive", False), (True, "active", False),
                                         (False, "activating", False), (False, "failed", False), (True, "inactive", True)):
            with self.subTest(disabled=disabled, state=state, refused=refused):
                fails = "daemon-reload" if refused else "is-enabled" if disabled else "nothing"
                self.manager(fails)
                script = read(self.at("path", "systemctl"))
                write(self.at("path", "systemctl"), script.replace(
                    "exit 0", f'[ "$*" != "is-active tunnelmesh-client" ] || echo {state}\nexit 0'), 0o755)
                os.remove(self.log)
                done = self.run_it("--bin-dir", self.programs("2.0"), "--yes")
                self.assertEqual(done.returncode, 7 if refused else 0, done.stderr)
                calls = read(self.log).splitlines()
                self.assertEqual("restart tunnelmesh-client" in calls, state != "inactive")
                self.assertEqual("enable tunnelmesh-client" in calls, not disabled)

    def test_an_upgrade_starts_what_was_installed_without_a_start(self):
        def state(disabled=False, word="inactive", fails="nothing"):
            self.manager("is-enabled" if disabled else fails)
            script = read(self.at("path", "systemctl"))
            write(self.at("path", "systemctl"), script.replace(
                "exit 0", f'[ "$*" != "is-active tunnelmesh-client" ] || echo {word}\nexit 0'), 0o755)
            write(self.log, "")

        def upgrade(*flags, code=0):
            done = self.run_it("--bin-dir", self.programs("2.0"), "--yes", *flags)
            self.assertEqual(done.returncode, code, done.stderr)
            return read(self.log).count("restart tunnelmesh-client")

        self.install("--no-start")
        state()
        self.assertEqual(upgrade("--no-start"), 0)
        state(disabled=True)
        self.assertEqual(upgrade(), 0, "an administrator disabled it")
        before = self.files()
        state(fails="restart")
        self.assertEqual(upgrade(code=7), 1, "nor is the old program started")
        self.assertEqual(self.files(), before)
        state()
        self.assertEqual(upgrade(), 1)
        self.assertEqual(upgrade(), 1, "it was started, so an administrator has stopped it since")
        # What runs and is not to be started again now is a different thing.
        state(word="active")
        self.assertEqual(upgrade("--no-start"), 0)
        state()
        self.assertEqual(upgrade(), 0, "an administrator stopped it")

    def test_an_upgrade_keeps_a_service_of_openrc_and_procd_stopped(self):
        os.rmdir(os.path.join(self.root, "run/systemd/system"))
        for manager, place in (("openrc-run", "usr/local/bin"), ("procd", "usr/bin")):
            write(os.path.join(self.root, "sbin", manager), "#!/bin/sh\n", 0o755)
            write(os.path.join(self.root, "etc/init.d/tunnelmesh-client"), "the old one")
            write(os.path.join(self.root, place, "tunnelmesh-client"), "the old one")
            for status, is_known, starts in ((3, True, False), (32, True, True), (0, False, True)):
                with self.subTest(manager=manager, status=status, is_known=is_known):
                    known = "echo ' tunnelmesh-client | default'" if is_known else "exit 1"
                    script = f"""#!/bin/sh
echo "$*" >>"{self.log}"
case " $* " in
  *" show "* | *" enabled "*) {known} ;;
  *" restart "*) : >"{self.at('restarted')}" ;;
  *" status "*) [ -e "{self.at('restarted')}" ] || exit {status} ;;
esac
"""
                    for path in (self.at("path", "rc-update"), self.at("path", "rc-service"),
                                 os.path.join(self.root, "etc/rc.common")):
                        write(path, script, 0o755)
                    write(self.log, "")
                    self.install()
                    self.assertEqual("restart" in read(self.log), starts)
                    self.assertEqual(bool(re.search(r"(add tunnelmesh-client default|client enable)\n", read(self.log))),
                                     is_known)
                    if os.path.exists(self.at("restarted")):
                        os.remove(self.at("restarted"))

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
        for code in set(re.findall(r"\bdie(?:_undone)? (\d)", text)):
            self.assertRegex(head, rf"[ ,]{code} ")


if __name__ == "__main__":
    unittest.main()
