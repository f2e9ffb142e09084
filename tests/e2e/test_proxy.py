"""`tunnelmesh-client proxy tcp`: standard input and output to one target, and the other commands made from flags."""

import fcntl
import hashlib
import os
import pty
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import tty
import unittest

from harness import BIN, WAIT_S, EchoTarget, MeshTest, Program, Target, closed_port, receive_exactly, wait_until

CLIENT = os.path.join(BIN, "tunnelmesh-client")


class WithProxy(MeshTest):
    def setUp(self):
        self.target = EchoTarget()
        self.addCleanup(self.target.close)

    def command(self, port=None, host="127.0.0.1", agent=None, extra=()):
        return [CLIENT, "proxy", "tcp", "--config", self.mesh.path("client"), "--agent", agent or self.mesh.agent_id,
                "--target-host", host, "--target-port", str(port or self.target.port), *extra]

    def start(self, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kw):
        process = subprocess.Popen(self.command(*args, **kw), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()

    def run_proxy(self, data=b"", *args, **kw):
        return subprocess.run(self.command(*args, **kw), input=data, capture_output=True, timeout=WAIT_S, check=False)

    def ends(self, process, code, error=b""):
        """The exit code and the last words, whatever a sanitizer adds is an error."""
        self.assertEqual((process.wait(WAIT_S), process.stderr.read()), (code, error))


class Proxy(WithProxy):
    def test_bytes_go_both_ways_and_a_regular_end_is_0(self):
        done = self.run_proxy(b"hello")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"hello", b""))

    def test_large_transfers_are_complete(self):
        data = os.urandom(1 << 20) * 24
        done = self.run_proxy(data)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(hashlib.sha256(done.stdout).digest(), hashlib.sha256(data).digest())

    def test_the_end_of_input_is_a_half_close(self):
        def late(s):
            data = b""
            while chunk := s.recv(65536):
                data += chunk
            s.sendall(b"got " + data)

        target = Target(handle=late)
        self.addCleanup(target.close)
        self.assertEqual(self.run_proxy(b"all of it", target.port).stdout, b"got all of it")

    def test_the_end_of_the_target_ends_output_while_input_goes_on(self):
        got = []

        def early(s):
            s.sendall(b"bye")
            s.shutdown(socket.SHUT_WR)
            while chunk := s.recv(65536):
                got.append(chunk)

        target = Target(handle=early)
        self.addCleanup(target.close)
        process = self.start(target.port)
        self.assertEqual(process.stdout.read(), b"bye")
        self.assertIsNone(process.poll())
        process.stdin.write(b"still here")
        process.stdin.close()
        self.ends(process, 0)
        # The program is over when the link has its bytes; the target may be behind.
        wait_until(lambda: target.served == 1, "the target to see the end")
        self.assertEqual((b"".join(got), target.errors), (b"still here", []))

    def test_a_target_that_speaks_first_is_heard_without_a_word(self):
        target = Target(handle=lambda s: (s.sendall(b"220 ready\r\n"), s.recv(1)))
        self.addCleanup(target.close)
        process = self.start(target.port)
        self.assertEqual(process.stdout.read(11), b"220 ready\r\n")

    def test_each_refusal_is_one_line_and_1(self):
        for args, line in (
            ({"port": closed_port()}, b"proxy: the target refused the connection\n"),
            ({"host": "no-such-host.invalid"}, b"proxy: the target's name has no address\n"),
            ({"agent": "agent-that-nobody-knows"}, b"proxy: this target is not allowed\n"),
        ):
            done = self.run_proxy(b"data", **args)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, b"", line), args)

    def test_without_a_server_it_says_so(self):
        done = self.run_proxy(b"x", extra=("--client.server_url", f"ws://127.0.0.1:{closed_port()}/"))
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertEqual(done.stderr, b"proxy: the agent is unavailable: it, or this client, has no link to the server\n")

    def test_nothing_but_payload_is_on_output(self):
        done = self.run_proxy(b"payload", extra=("--log-level", "debug"))
        self.assertEqual((done.returncode, done.stdout), (0, b"payload"))
        self.assertIn(b"link_up", done.stderr)

    def test_it_has_no_listener(self):
        process = self.start()
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.stdout.read(1), b"x")
        mine = set()
        for fd in os.listdir(f"/proc/{process.pid}/fd"):
            mine.add(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
        with open("/proc/net/tcp", encoding="ascii") as f:
            listening = {f"socket:[{line.split()[9]}]" for line in f if line.split()[3] == "0A"}
        self.assertEqual(mine & listening, set())

    def test_a_reset_of_the_target_is_told_after_its_bytes(self):
        def rude(s):
            s.sendall(b"last words")
            s.recv(1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        target = Target(handle=rude)
        self.addCleanup(target.close)
        process = self.start(target.port)
        self.assertEqual(process.stdout.read(10), b"last words")
        process.stdin.write(b"x")
        process.stdin.flush()
        self.ends(process, 1, b"proxy: the connection broke before its end\n")

    def test_signals_end_it(self):
        # SIGHUP is ssh's.
        for how in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            process = self.start()
            process.stdin.write(b"x")
            process.stdin.flush()
            self.assertEqual(process.stdout.read(1), b"x")
            process.send_signal(how)
            self.ends(process, 1)


class Descriptors(WithProxy):
    """Input and output of every kind."""

    def file(self, data=b""):
        f = tempfile.TemporaryFile()
        self.addCleanup(f.close)
        f.write(data)
        f.seek(0)
        return f

    def test_files(self):
        data = os.urandom(300_000)
        out = self.file()
        process = self.start(stdin=self.file(data), stdout=out)
        self.ends(process, 0)
        out.seek(0)
        self.assertEqual(out.read(), data)

    def test_dev_null(self):
        process = self.start(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.ends(process, 0)

    def test_a_terminal(self):
        master, slave = pty.openpty()
        tty.setraw(slave)
        try:
            process = self.start(stdin=slave, stdout=slave)
            os.write(master, b"typed")
            got = b""
            while len(got) < 5:
                got += os.read(master, 100)
            self.assertEqual(got, b"typed")
            self.assertFalse(fcntl.fcntl(slave, fcntl.F_GETFL) & os.O_NONBLOCK, "the terminal is others' too")
        finally:
            os.close(slave)
            os.close(master)  # hangs up: input fails
        self.ends(process, 1, b"proxy: standard input cannot be read\n")

    def test_sockets(self):
        ours, theirs = socket.socketpair()
        process = self.start(stdin=theirs, stdout=theirs)
        theirs.close()
        with ours:
            ours.settimeout(WAIT_S)
            ours.sendall(b"over a socket")
            self.assertEqual(receive_exactly(ours, 13), b"over a socket")
            ours.shutdown(socket.SHUT_WR)
            self.assertEqual(ours.recv(1), b"")
        self.ends(process, 0)

    def test_a_full_device_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            process = self.start(stdout=full)
        process.stdin.write(b"x")
        process.stdin.flush()
        self.ends(process, 1, b"proxy: standard output takes no more\n")

    def test_a_reader_that_left_is_a_failure(self):
        process = self.start()
        process.stdout.close()
        process.stdin.write(b"x")
        process.stdin.flush()
        self.ends(process, 1, b"proxy: standard output takes no more\n")

    def test_output_that_somebody_made_non_blocking(self):
        data = os.urandom(2_000_000)
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        process = self.start(stdin=self.file(data), stdout=writable)
        os.close(writable)
        with open(readable, "rb") as reader:
            self.assertEqual(reader.read(), data)
        self.ends(process, 0)

    def test_a_slow_reader_stops_the_target(self):
        sent = []

        def flood(s):
            while True:
                s.sendall(b"z" * 65536)
                sent.append(65536)

        target = Target(handle=flood)
        self.addCleanup(target.close)
        process = self.start(target.port)
        self.assertEqual(process.stdout.read(1), b"z")

        def rests():
            before = len(sent)
            return not threading.Event().wait(0.2) and len(sent) == before

        wait_until(rests, "the target to be stopped")
        self.assertLess(sum(sent), 64 << 20)

    def test_closed_descriptors_are_said_so(self):
        for closed, line in (("<&-", b"proxy: standard input cannot be read\n"),
                             (">&-", b"proxy: standard output takes no more\n"), ("<&- 2>&-", b"")):
            done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *self.command()], capture_output=True,
                                  input=b"x", timeout=WAIT_S, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, b"", line), closed)


class Commands(WithProxy):
    def forward(self, *arguments):
        """A running client of one entry, and where it listens."""
        folder = tempfile.mkdtemp(dir=self.mesh.folder)
        program = Program("client", [*arguments, "--config", self.mesh.path("client"), "--agent", self.mesh.agent_id],
                          folder)
        self.addCleanup(lambda: self.assertEqual(program.stop(), 0, program.text()))
        line = wait_until(lambda: [x for x in program.text().splitlines() if " listens on " in x] or self.alive(program),
                          "the entry")[0]
        return line.split(" listens on ")[1]

    def alive(self, program):
        self.assertTrue(program.alive(), program.text())

    def to_target(self):
        return ["--target-host", "127.0.0.1", "--target-port", str(self.target.port)]

    def echo(self, s):
        with s:
            s.settimeout(WAIT_S)
            s.sendall(b"through an entry from flags")
            self.assertEqual(receive_exactly(s, 27), b"through an entry from flags")

    def test_forward_tcp(self):
        where = self.forward("forward", "tcp", *self.to_target())
        host, port = where.split(":")
        self.assertEqual(host, "127.0.0.1")
        self.echo(socket.create_connection((host, int(port)), timeout=WAIT_S))

    def test_forward_tcp_on_a_unix_socket(self):
        path = os.path.join(self.mesh.folder, "entry.sock")
        where = self.forward("forward", "tcp", "--listen", f"unix:{path}", "--socket-mode", "0620", *self.to_target())
        self.assertEqual(where, f"unix:{path}")
        self.assertEqual(os.stat(path).st_mode & 0o7777, 0o620)
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        self.echo(s)

    def test_the_other_entries_come_from_flags_too(self):
        for arguments in (("forward", "socks5"), ("forward", "http-proxy", "--listen", "127.0.0.1:0"),
                          ("forward", "udp", *self.to_target()), ("forward", "http", *self.to_target()),
                          ("publish", "http", *self.to_target())):
            with self.subTest(arguments):
                self.assertRegex(self.forward(*arguments), r"^127\.0\.0\.1:[1-9]\d*$")

    # LESSONS R20, requirement J5.
    def test_other_machines_need_consent(self):
        for protocol in ("tcp", "udp", "http"):
            done = subprocess.run(
                [CLIENT, "forward", protocol, "--listen", "0.0.0.0:0", "--config", self.mesh.path("client"),
                 "--agent", self.mesh.agent_id, *self.to_target()],
                capture_output=True, text=True, timeout=WAIT_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn("is reachable from other machines; that needs allow_remote: true", done.stderr)

    def test_commands_that_are_elsewhere_say_where(self):
        for arguments, word in ((["login"], "client.token_file"), (["agent"], "tunnelmesh-server agent list"),
                                (["stop"], "SIGTERM"), (["tunnel", "stop"], "SIGHUP"),
                                (["tunnel", "status"], "tunnelmesh-client status")):
            done = subprocess.run([CLIENT, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
