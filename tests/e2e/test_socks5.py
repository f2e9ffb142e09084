"""The SOCKS5 entry end to end: replies, addresses, greetings in any fragmentation."""

import concurrent.futures
import socket
import unittest

from harness import EchoTarget, HungTarget, MeshTest, SocksRefused, Target, receive_exactly, socks_connect, wait_until


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
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.assertEqual(self.reply("127.0.0.1", port), 5)

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
                s.settimeout(30)
                self.assertIn(s.recv(16)[:2], (b"", b"\x05\xff"), rubbish)


class Forbidden(MeshTest):
    options = {"allow": ("127.0.0.1:1",)}

    @classmethod
    def setUpClass(cls):
        # The readiness probe needs a target that the policy allows: a refused one answers too.
        cls.options = dict(cls.options, start=("server", "agent"))
        super().setUpClass()
        cls.mesh.start("client")

    def test_forbidden_target_is_reply_2_and_never_sees_a_connection(self):
        seen = []
        target = Target(handle=lambda s: seen.append(s))
        try:
            def answer():
                try:
                    socks_connect(self.mesh.socks_port, "127.0.0.1", target.port).close()
                    return "accepted"
                except SocksRefused as refused:
                    return refused.reply if refused.reply != 4 else None  # 4: the agent is not there yet

            self.assertEqual(wait_until(answer, "an answer of the server"), 2)
            self.assertEqual(seen, [])
            self.assertEqual(target.accepted, 0)
        finally:
            target.close()


if __name__ == "__main__":
    unittest.main()
