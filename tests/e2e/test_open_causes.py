"""Why an open failed arrives as its own SOCKS5 reply, within one round trip, and never as a success first."""

import errno
import socket
import struct
import time
import unittest

from harness import HungTarget, Mesh, MeshTest, SocksRefused, closed_port, socks_address, socks_connect
from measure import often

REFUSED, UNREACHABLE, NO_NETWORK, FORBIDDEN, EXPIRED, NOT_SUPPORTED = 5, 4, 3, 2, 6, 7


def without_a_route():
    """An address this machine has no route to, or None: only the kernel's answer counts."""
    for family, host in ((socket.AF_INET6, "2001:db8::1"), (socket.AF_INET, "192.0.2.1"),
                         (socket.AF_INET, "240.0.0.1")):
        with socket.socket(family) as s:
            s.setblocking(False)
            if s.connect_ex((host, 9)) == errno.ENETUNREACH:
                return host
    return None


class Causes(MeshTest):
    def raw_reply(self, host, port, timeout_s=30.0, command=1):
        """(reply code, everything the client received) of one CONNECT."""
        with socket.create_connection(("127.0.0.1", self.mesh.socks_port), timeout=timeout_s) as s:
            s.sendall(b"\x05\x01\x00\x05" + bytes([command]) + b"\x00" + socks_address(host) + struct.pack(">H", port))
            got = b""
            while chunk := s.recv(4096):
                got += chunk
        self.assertEqual(got[:2], b"\x05\x00")
        self.assertEqual(len(got), 12, f"one reply and the end: {got!r}")
        return got[3]

    def test_each_cause_has_its_own_reply(self):
        hung = HungTarget()
        try:
            table = [("refused", "127.0.0.1", closed_port(), REFUSED),
                     ("refused over IPv6", "::1", closed_port("::1"), REFUSED),
                     ("a name that does not exist", "nowhere.invalid", 80, UNREACHABLE),
                     ("a hung dial", "127.0.0.1", hung.port, EXPIRED),
                     ("link-local: the agent's policy", "169.254.1.1", 80, FORBIDDEN)]
            unroutable = without_a_route()
            if unroutable:
                table.append(("no route", unroutable, 9, NO_NETWORK))
            else:
                print("every address has a route here: network_unreachable is left to the unit tests")
            for cause, host, port, wanted in table:
                with self.subTest(cause):
                    self.assertEqual(self.raw_reply(host, port), wanted, cause)
        finally:
            hung.close()
        for command in (2, 3):
            self.assertEqual(self.raw_reply("127.0.0.1", 1, command=command), NOT_SUPPORTED)

    def test_a_refusal_takes_one_round_trip_and_never_says_success(self):
        port = closed_port()
        took = []
        for _ in range(often(50, 1000)):
            begin = time.monotonic()
            self.assertEqual(self.raw_reply("127.0.0.1", port), REFUSED)
            took.append(time.monotonic() - begin)
        took.sort()
        print(f"refusals: median {took[len(took) // 2] * 1e3:.1f} ms, slowest {took[-1] * 1e3:.1f} ms")
        self.assertLess(took[len(took) // 2], 0.2)

    def test_a_scan_of_closed_ports_finds_none_open(self):
        ports = [closed_port() for _ in range(often(64, 512))]
        with self.subTest("closed"):
            for port in ports:
                with self.assertRaises(SocksRefused) as caught:
                    socks_connect(self.mesh.socks_port, "127.0.0.1", port)
                self.assertEqual(caught.exception.reply, REFUSED)


class ServerPolicy(unittest.TestCase):
    def test_what_no_policy_allows_is_forbidden_and_an_absent_agent_unreachable(self):
        mesh = Mesh(allow=("127.0.0.1:7",), start=("server", "client"))
        try:
            def reply(port):
                try:
                    socks_connect(mesh.socks_port, "127.0.0.1", port).close()
                    return 0
                except SocksRefused as refused:
                    return refused.reply

            # The client's link first: without it everything is unreachable.
            end = time.monotonic() + 30
            while reply(8) != FORBIDDEN and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(reply(8), FORBIDDEN)
            self.assertEqual(reply(7), UNREACHABLE, "allowed, but the agent is away")
        finally:
            mesh.close()


if __name__ == "__main__":
    unittest.main()
