"""The SOCKS5 entry end to end: replies, addresses, greetings in any fragmentation."""

import concurrent.futures
import contextlib
import os
import socket
import threading
import unittest

from harness import (EchoTarget, HungTarget, MeshTest, SocksRefused, Target, closed_port, receive_exactly, socks_connect,
                     wait_until)


class Socks5(MeshTest):
    def reply(self, host, port, **kw):
        try:
            socks_connect(self.mesh.socks_port, host, port, **kw).close()
            return 0
        except SocksRefused as refused:
            return refused.reply

    def test_ipv4_ipv6_and_name_reach_the_target(self):
        v4, v6 = EchoTarget(), EchoTarget(host="::1")
        try:
            for host, target in (("127.0.0.1", v4), ("::1", v6), ("localhost", v4)):
                with socks_connect(self.mesh.socks_port, host, target.port) as s:
                    s.sendall(b"hello through the mesh")
                    self.assertEqual(receive_exactly(s, 22), b"hello through the mesh", host)
        finally:
            v4.close()
            v6.close()

    def test_closed_port_is_connection_refused(self):
        self.assertEqual(self.reply("127.0.0.1", closed_port()), 5)

    def test_unknown_name_is_host_unreachable(self):
        self.assertEqual(self.reply("no-such-host.invalid", 80), 4)

    def test_bind_and_udp_associate_are_not_supported(self):
        self.assertEqual(self.reply("127.0.0.1", 80, command=2), 7)
        self.assertEqual(self.reply("127.0.0.1", 80, command=3), 7)

    def test_unknown_address_type_is_reply_8(self):
        with socket.create_connection(("127.0.0.1", self.mesh.socks_port), timeout=30) as s:
            s.sendall(b"\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50")
            self.assertEqual(receive_exactly(s, 4), b"\x05\x00\x05\x08")

    def test_every_message_byte_by_byte(self):
        target = EchoTarget()
        try:
            with socks_connect(self.mesh.socks_port, "localhost", target.port, pieces=1) as s:
                s.sendall(b"x")
                self.assertEqual(receive_exactly(s, 1), b"x")
        finally:
            target.close()

    def test_greeting_request_and_payload_in_one_write(self):
        target = EchoTarget()
        try:
            with socket.create_connection(("127.0.0.1", self.mesh.socks_port), timeout=30) as s:
                s.sendall(b"\x05\x01\x00" + b"\x05\x01\x00\x01\x7f\x00\x00\x01" + target.port.to_bytes(2, "big") + b"first bytes")
                self.assertEqual(receive_exactly(s, 2), b"\x05\x00")
                self.assertEqual(receive_exactly(s, 10)[:4], b"\x05\x00\x00\x01")
                self.assertEqual(receive_exactly(s, 11), b"first bytes")
        finally:
            target.close()

    def test_no_success_before_the_target_is_connected(self):
        hung = HungTarget()
        try:
            with self.assertRaises(TimeoutError):
                socks_connect(self.mesh.socks_port, "127.0.0.1", hung.port, timeout_s=1.5).close()
        finally:
            hung.close()

    def test_32_concurrent_connects_get_their_own_bytes(self):
        target = EchoTarget()

        def one(i):
            with socks_connect(self.mesh.socks_port, "127.0.0.1", target.port) as s:
                data = bytes([i]) * 20000
                s.sendall(data)
                return receive_exactly(s, len(data)) == data

        try:
            with concurrent.futures.ThreadPoolExecutor(32) as pool:
                self.assertTrue(all(pool.map(one, range(32))))
        finally:
            target.close()

    def test_socks4_and_rubbish_are_closed_without_harm(self):
        for rubbish in (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"GET / HTTP/1.1\r\n\r\n", b"\x05\x00", b"\x05\x01\x01"):
            with socket.create_connection(("127.0.0.1", self.mesh.socks_port), timeout=30) as s:
                s.sendall(rubbish)
                self.assertIn(s.recv(16)[:2], (b"", b"\x05\xff"), rubbish)

    def test_what_is_no_name_is_a_general_failure(self):
        # A literal with a zone means nothing on the agent's machine.
        for host in ("two words", "fe80::1%eth0", "fe80::1%25eth0", "a:b:c"):
            self.assertEqual(self.reply(host, 80), 1, host)
        self.assertEqual(self.reply("127.0.0.1", 0), 1)

    # LESSONS P-G6.
    def test_the_client_resolves_no_name(self):
        asked = {"agent": 0, "client": 0}
        is_over = threading.Event()

        def ask():
            for i in range(1_000_000):
                if is_over.is_set():
                    return
                self.reply(f"name-{i}.of-nobody.test", 80)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            def samples_enough():
                for name in asked:
                    asked[name] += has_udp_socket(self.mesh.programs[name].process.pid)
                return asked["agent"] >= 3
            wait_until(samples_enough, "queries of the agent")
        finally:
            is_over.set()
            thread.join()
        self.assertEqual(asked["client"], 0)


def has_udp_socket(pid):
    inodes = set()
    for table in ("udp", "udp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as f:
            inodes |= {f"socket:[{line.split()[9]}]" for line in f}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{fd}") in inodes:
                return True
    return False


# LESSONS P-I1, P-I4.
class Login(MeshTest):
    name = "ü:" + "n" * 252  # 255 bytes
    password = "p" * 253 + "é"
    options = {"tunnels": [{"protocol": "socks5", "name": "login", "auth_mode": "password"}],
               "client_env": {"TUNNELMESH_SOCKS5_USERNAME": name, "TUNNELMESH_SOCKS5_PASSWORD": password}}

    def setUp(self):
        self.target = EchoTarget()
        self.addCleanup(self.target.close)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.mesh.ports["login"]), timeout=30)

    def login(self, name=None, password=None):
        name, password = ((x if isinstance(x, bytes) else x.encode())
                          for x in (self.name if name is None else name, self.password if password is None else password))
        return b"\x01" + bytes([len(name)]) + name + bytes([len(password)]) + password

    def request(self):
        return b"\x05\x01\x00\x01\x7f\x00\x00\x01" + self.target.port.to_bytes(2, "big")

    def test_two_fields_of_255_bytes_byte_by_byte(self):
        self.assertEqual(len(self.login()), 1 + 2 * 256)
        with socks_connect(self.mesh.ports["login"], "127.0.0.1", self.target.port, pieces=1,
                           user=(self.name, self.password)) as s:
            s.sendall(b"x")
            self.assertEqual(receive_exactly(s, 1), b"x")

    def test_everything_in_one_write(self):
        with self.socket() as s:
            s.sendall(b"\x05\x02\x00\x02" + self.login() + self.request() + b"first bytes")
            self.assertEqual(receive_exactly(s, 4), b"\x05\x02\x01\x00")
            self.assertEqual(receive_exactly(s, 10)[:2], b"\x05\x00")
            self.assertEqual(receive_exactly(s, 11), b"first bytes")

    def test_a_wrong_login_gets_its_answer_and_the_end(self):
        # RFC 1929 gives both fields at least one byte: an empty one is a wrong one.
        for name, password in (("", None), (None, ""), ("", ""), (self.name[:-1], None), (None, self.password[1:]),
                               (self.name.upper(), None), (None, self.password[:-1] + "e"), (b"\x00", None)):
            with self.socket() as s:
                s.sendall(b"\x05\x01\x02" + self.login(name, password) + self.request() + b"data")
                got = b""
                while chunk := s.recv(100):
                    got += chunk
                self.assertEqual(got, b"\x05\x02\x01\x01", (name, password))

    def test_without_its_method_nobody_gets_in(self):
        for methods in (b"\x00", b"\x01", b"", b"\x00\x01\x03\x80\xfe"):
            with self.socket() as s:
                s.sendall(b"\x05" + bytes([len(methods)]) + methods + self.request())
                self.assertEqual(s.recv(100), b"\x05\xff", methods)
                self.assertEqual(s.recv(100), b"")


class Forbidden(MeshTest):
    options = {"allow": ("127.0.0.1:1",)}

    @classmethod
    def setUpClass(cls):
        # The readiness probe needs a target that the policy allows: a refused one answers too.
        cls.options = dict(cls.options, start=("server", "agent"))
        super().setUpClass()
        cls.mesh.start("client")

    # LESSONS P-G5: the rule is for an address, however it is written.
    def test_a_mapped_address_is_judged_as_the_ipv4_address(self):
        def reply(host):
            try:
                socks_connect(self.mesh.socks_port, host, 1).close()
                return 0
            except SocksRefused as refused:
                return refused.reply

        wait_until(lambda: reply("127.0.0.1") == 5, "the agent")
        for host in ("::ffff:127.0.0.1", "::ffff:7f00:1"):
            self.assertEqual(reply(host), 5, "allowed, and nobody is there")
        for host in ("::ffff:127.0.0.2", "::127.0.0.1", "127.0.0.2", "::1"):
            self.assertEqual(reply(host), 2, host)

    def test_forbidden_target_is_reply_2_and_never_sees_a_connection(self):
        target = EchoTarget()
        try:
            def answer():
                try:
                    socks_connect(self.mesh.socks_port, "127.0.0.1", target.port).close()
                    return "accepted"
                except SocksRefused as refused:
                    return refused.reply if refused.reply != 4 else None  # 4: the agent is not there yet

            self.assertEqual(wait_until(answer, "an answer of the server"), 2)
            self.assertEqual(target.connections(), 0)
        finally:
            target.close()


if __name__ == "__main__":
    unittest.main()
