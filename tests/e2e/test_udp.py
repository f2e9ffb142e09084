"""UDP through the udp entry: datagrams whole and in order, associations that come and go."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from harness import (EchoTarget, Mesh, UdpEcho, closed_port, free_port, is_listening, receive_exactly,
                     socks_connect, started, udp_socket, wait_until)

IDLE_S = 1  # the shortest there is
LARGEST = 65_507


class Dnsmasq:
    """A real DNS server that knows two names."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tmesh-dns-")
        self.port = free_port()
        texts = ",".join(f"{n}{'t' * 240}" for n in range(8))
        self.process = started(subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", f"--port={self.port}",
             "--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts",
             f"--pid-file={self.folder}/pid", "--user=", "--group=", "--address=/tunnel.test/192.0.2.7",
             "--edns-packet-max=4096", f"--txt-record=long.test,{texts}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until(lambda: is_listening(self.port), "dnsmasq")  # with TCP, as it does beside UDP

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def udp_sockets(pid):
    """How many UDP sockets the process has."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    count = 0
    for table in ("udp", "udp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as f:
            count += sum(1 for line in f.readlines()[1:] if line.split()[9] in inodes)
    return count


class Udp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dns = Dnsmasq()
        cls.echo = UdpEcho()
        cls.mesh = Mesh(
            tunnels=[{"protocol": "udp", "name": name, "target_host": host, "target_port": port}
                     for name, host, port in (("dns", "127.0.0.1", cls.dns.port), ("echo", "127.0.0.1", cls.echo.port),
                                              ("nowhere", "127.0.0.1", closed_port()), ("forbidden", "169.254.169.254", 53))],
            client_env={"TUNNELMESH_CLIENT_UDP_IDLE_TIMEOUT": f"{IDLE_S}s"})

    @classmethod
    def tearDownClass(cls):
        cls.mesh.close()
        cls.echo.close()
        cls.dns.close()

    def agent_sockets(self):
        return udp_sockets(self.mesh.programs["agent"].process.pid)

    def round_trip(self, s, data, limit_s=30):
        """Until the datagram comes back; what is lost on the way is sent again."""
        def works():
            s.sendto(data, ("127.0.0.1", self.mesh.ports["echo"]))
            with contextlib.suppress(TimeoutError):
                while True:
                    if s.recv(65_536) == data:
                        return True
            return False
        s.settimeout(0.5)
        wait_until(works, "an echo through the tunnel", limit_s)
        s.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                s.recv(65_536)  # of what was sent twice
        s.settimeout(limit_s)

    @staticmethod
    def receive_but(s, earlier):
        """The next datagram; the echo of one that was sent twice may come late."""
        while (data := s.recv(65_536)) == earlier:
            pass
        return data

    def dig(self, *arguments):
        done = subprocess.run(
            ["dig", "@127.0.0.1", "-p", str(self.mesh.ports["dns"]), "+time=5", "+tries=3", *arguments],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_dig_asks_a_real_server(self):
        self.assertEqual(self.dig("+short", "a.tunnel.test").strip(), "192.0.2.7")
        self.assertIn("status: REFUSED", self.dig("nobody.test"))

    def test_dig_gets_an_answer_of_two_kilobytes(self):
        answer = self.dig("+short", "+bufsize=4096", "+ignore", "TXT", "long.test")
        self.assertEqual(answer.count("t" * 240), 8)

    def test_every_size_comes_back_bit_exact(self):
        with udp_socket() as s:
            self.round_trip(s, b"begin")
            for size in (0, 1, 2, 1_400, 1_473, 16_384, 32_768, 40_000, LARGEST - 1, LARGEST):
                self.round_trip(s, random.Random(size).randbytes(size))

    def test_datagrams_keep_their_boundaries_and_order(self):
        with udp_socket() as s:
            self.round_trip(s, b"begin")
            sent = [b"%d " % n * (n % 7) for n in range(100)]
            for data in sent:
                s.sendto(data, ("127.0.0.1", self.mesh.ports["echo"]))
            self.assertEqual([self.receive_but(s, b"begin") for _ in sent], sent)

    def test_each_source_gets_its_own_answers(self):
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(udp_socket()) for _ in range(50)]
            self.round_trip(sockets[0], b"begin")
            for n, s in enumerate(sockets):
                s.sendto(b"source %d" % n, ("127.0.0.1", self.mesh.ports["echo"]))
            for n, s in enumerate(sockets):
                # A late answer to another test may come to whoever has its port now.
                while not (answer := s.recv(65_536)).startswith(b"source "):
                    pass
                self.assertEqual(answer, b"source %d" % n)

    # LESSONS P-F1, R13.
    def test_five_thousand_sources_leave_no_socket(self):
        wait_until(lambda: self.agent_sockets() == 0, "the agent's sockets of other tests to go")
        seen = 0
        for n in range(5_000):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(b"x", ("127.0.0.1", self.mesh.ports["echo"]))
            if n % 250 == 0:
                seen = max(seen, self.agent_sockets())
        wait_until(lambda: (seen > 0 or self.agent_sockets() > 0), "any of them to be dialled")
        self.assertLessEqual(self.agent_sockets(), 1_024)
        wait_until(lambda: self.agent_sockets() == 0, "the agent's sockets to go after the idle timeout")
        with udp_socket() as s:
            self.round_trip(s, b"after")

    # LESSONS P-F7: the local socket stays open for ever, the agent's does not; nothing is lost by it.
    def test_a_silent_source_costs_no_socket_and_may_speak_again(self):
        with udp_socket() as s:
            self.round_trip(s, b"one")
            wait_until(lambda: self.agent_sockets() == 0, "the idle timeout")
            s.sendto(b"two", ("127.0.0.1", self.mesh.ports["echo"]))
            self.assertEqual(self.receive_but(s, b"one"), b"two")

    def test_it_works_again_after_the_agent_was_killed(self):
        with udp_socket() as s:
            self.round_trip(s, b"before")
            self.mesh.programs["agent"].stop(signal.SIGKILL)
            s.sendto(b"nobody", ("127.0.0.1", self.mesh.ports["echo"]))
            self.mesh.start("agent")
            self.round_trip(s, b"after")

    def test_it_works_again_after_the_server_was_killed(self):
        with udp_socket() as s:
            self.round_trip(s, b"before")
            self.mesh.programs["server"].stop(signal.SIGKILL)
            s.sendto(b"nobody", ("127.0.0.1", self.mesh.ports["echo"]))
            self.mesh.start("server")
            self.round_trip(s, b"after", 60)
        self.mesh.wait_ready()

    def test_a_flood_does_not_stop_a_tcp_stream(self):
        target = EchoTarget()
        stop = threading.Event()

        def flood():
            with udp_socket() as s:
                while not stop.is_set():
                    s.sendto(b"f" * 1_400, ("127.0.0.1", self.mesh.ports["echo"]))

        before = self.echo.count
        thread = threading.Thread(target=flood)
        thread.start()
        try:
            wait_until(lambda: self.echo.count > before + 100, "the flood to arrive")
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                worst = 0
                for n in range(100):
                    began = time.monotonic()
                    s.sendall(b"%4d" % n)
                    self.assertEqual(receive_exactly(s, 4), b"%4d" % n)
                    worst = max(worst, time.monotonic() - began)
            self.assertLess(worst, 10)
        finally:
            stop.set()
            thread.join()
            target.close()
        with udp_socket() as s:
            self.round_trip(s, b"after the flood")

    def test_what_is_dropped_shows_in_the_status(self):
        def dropped():
            by_name = {e["name"]: e["dropped"] for e in self.mesh.status("client")["entries"]}
            return by_name["nowhere"], by_name["forbidden"], self.mesh.status("agent")["counters"]["datagrams_dropped"]

        nowhere, forbidden, at_agent = dropped()
        with udp_socket() as s:
            def both():
                for name in ("nowhere", "forbidden"):
                    s.sendto(b"x", ("127.0.0.1", self.mesh.ports[name]))
                now = dropped()
                return now[1] > forbidden and now[2] > at_agent

            wait_until(both, "the drops at client and agent to be counted")
        self.assertEqual(dropped()[0], nowhere, "the agent took these")


if __name__ == "__main__":
    unittest.main()
