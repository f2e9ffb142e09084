"""deploy/install.sh run again: upgrade, rollback, and what an administrator did to the service meanwhile."""

import glob
import os
import re
import unittest

from deploy_files import read, write
from install_support import CONFIG, SYSTEMCTL, InstallTest


class Upgrade(InstallTest):
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


if __name__ == "__main__":
    unittest.main()
