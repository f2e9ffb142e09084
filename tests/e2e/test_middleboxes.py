"""What boxes between the programs do: cut idle connections, fragment WebSocket messages anew, answer
handshakes themselves, drop header fields."""

import hashlib
import os
import random
import re
import socket
import struct
import threading
import time
import unittest

from harness import EchoTarget, Mesh, Program, Target, receive_exactly, socks_connect, wait_until
from measure import MIB, Box, client_identity, often, through_box, timed_echo
from wire import PING, PONG, Closed, Peer, encode_ws, mask, request_text


class Refragmenter:
    """Splits every data message of a WebSocket stream at random places into fragments of any size, none and one
    byte included, with pings in between. HTTP heads pass as they are. Deterministic for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.fragments = 0

    def __call__(self, data, is_upward, state):
        buffer = state.get("rest", b"") + data
        out = b""
        if not state.get("is_open"):
            at = buffer.find(b"\r\n\r\n")
            if at < 0:
                state["rest"] = buffer
                return b""
            out, buffer = buffer[:at + 4], buffer[at + 4:]
            state["is_open"] = True
        while True:
            frame, buffer = self.take(buffer)
            if frame is None:
                break
            with self.lock:
                out += self.rewrite(*frame)
        state["rest"] = buffer
        return out

    @staticmethod
    def take(buffer):
        """((first byte, payload, was masked), rest), or (None, buffer)."""
        if len(buffer) < 2:
            return None, buffer
        first, second = buffer[0], buffer[1]
        n, at = second & 0x7F, 2
        if n == 126:
            if len(buffer) < 4:
                return None, buffer
            n, at = struct.unpack(">H", buffer[2:4])[0], 4
        elif n == 127:
            if len(buffer) < 10:
                return None, buffer
            n, at = struct.unpack(">Q", buffer[2:10])[0], 10
        key = b""
        if second & 0x80:
            if len(buffer) < at + 4:
                return None, buffer
            key, at = buffer[at:at + 4], at + 4
        if len(buffer) < at + n:
            return None, buffer
        payload = buffer[at:at + n]
        return (first, mask(payload, key) if key else payload, bool(key)), buffer[at + n:]

    def rewrite(self, first, payload, is_masked):
        opcode = first & 0x0F
        if opcode >= 8:
            return encode_ws(opcode, payload, masked=is_masked)
        cuts = sorted(self.random.randrange(len(payload) + 1) for _ in range(self.random.choice((0, 1, 1, 2, 5, 9))))
        pieces = [payload[a:b] for a, b in zip([0] + cuts, cuts + [len(payload)])]
        out = b""
        for i, piece in enumerate(pieces):
            is_last = i == len(pieces) - 1
            out += encode_ws(opcode if i == 0 else 0, piece, fin=is_last, masked=is_masked)
            self.fragments += 1
            if not is_last and self.random.random() < 0.1:
                out += encode_ws(9, b"between", masked=is_masked)
        return out


class Fragments(unittest.TestCase):
    def test_messages_fragmented_anew_at_random_carry_exact_bytes(self):
        seed = int(os.environ.get("TMESH_SEED", "0")) or random.randrange(1 << 32)
        print(f"TMESH_SEED={seed}")
        size = often(2, 64) * MIB
        change = Refragmenter(seed)
        boxes = []

        def edit(mesh):
            for name in ("client", "agent"):
                box = Box(mesh.http_port, change=change)
                boxes.append(box)
                through_box(mesh, box, (name,))

        mesh = Mesh(edit=edit)
        up, down = random.Random(1).randbytes(size), random.Random(2).randbytes(size)
        got = []

        def handle(s):
            sender = threading.Thread(target=s.sendall, args=(down,))
            sender.start()
            got.append(hashlib.sha256(receive_exactly(s, size)).digest())
            sender.join()

        target, echo = Target(handle), EchoTarget()
        try:
            with socks_connect(mesh.socks_port, "127.0.0.1", target.port, timeout_s=300) as s:
                sender = threading.Thread(target=s.sendall, args=(up,))
                sender.start()
                self.assertEqual(hashlib.sha256(receive_exactly(s, size)).digest(), hashlib.sha256(down).digest())
                sender.join()
                s.shutdown(socket.SHUT_WR)
                self.assertEqual(s.recv(1), b"")
            self.assertEqual(got, [hashlib.sha256(up).digest()])
            for _ in range(50):
                timed_echo(mesh.socks_port, echo.port)
            print(f"{change.fragments} fragments")
            self.assertGreater(change.fragments, 1000)
        finally:
            target.close()
            echo.close()
            mesh.close()
            for box in boxes:
                box.close()


class IdleCuts(unittest.TestCase):
    def test_a_box_that_cuts_what_is_silent_never_finds_a_link_silent(self):
        # Public boxes cut after 30 to 350 s without a byte. A stream without data survives in the shadow of pings.
        boxes = []

        def edit(mesh):
            for name in ("client", "agent"):
                box = Box(mesh.http_port, idle_limit_s=30)
                boxes.append(box)
                through_box(mesh, box, (name,))

        mesh = Mesh(edit=edit)
        echo = EchoTarget()
        try:
            with socks_connect(mesh.socks_port, "127.0.0.1", echo.port) as s:
                time.sleep(often(27, 75))  # one PING and the doubt that an unanswered one would raise; the box's limit
                s.sendall(b"after the silence")
                self.assertEqual(receive_exactly(s, 17), b"after the silence")
            self.assertEqual([box.idle_cut_count for box in boxes], [0, 0])
            self.assertNotIn("link_suspect", mesh.logs(), "both ends answer within a millisecond")
            self.assertLess(max(box.longest_silence_s for box in boxes), 25)
            print("longest silence of a link:", [round(box.longest_silence_s, 1) for box in boxes], "s")
        finally:
            echo.close()
            mesh.close()
            for box in boxes:
                box.close()

    def test_a_link_that_was_cut_is_replaced_and_its_streams_end_with_an_error(self):
        boxes = []

        def edit(mesh):
            boxes.append(Box(mesh.http_port))
            through_box(mesh, boxes[0])

        mesh = Mesh(edit=edit)
        echo = EchoTarget()
        try:
            with socks_connect(mesh.socks_port, "127.0.0.1", echo.port) as s:
                boxes[0].cut()
                s.settimeout(30)
                with self.assertRaises(ConnectionResetError):
                    if s.recv(1) == b"":
                        self.fail("a cut stream must not look like a regular end")
            mesh.wait_ready()
            timed_echo(mesh.socks_port, echo.port)
        finally:
            echo.close()
            mesh.close()
            boxes[0].close()


class FakeServer:
    """Answers every WebSocket handshake with the same head; keeps the requests."""

    def __init__(self, head):
        self.requests = []
        self.head = head
        self.target = Target(self.handle)
        self.port = self.target.port

    def handle(self, s):
        data = b""
        while b"\r\n\r\n" not in data:
            data += receive_exactly(s, 1)
        self.requests.append(data.decode("latin-1"))
        s.sendall(self.head.replace("\n", "\r\n").encode())
        time.sleep(0.2)

    def close(self):
        self.target.close()


class Handshakes(unittest.TestCase):
    """Mesh programs in front of a server that is none, or behind a proxy that knows no WebSocket."""

    @classmethod
    def setUpClass(cls):
        cls.mesh = Mesh()
        cls.token, cls.agent_id = client_identity(cls.mesh)

    @classmethod
    def tearDownClass(cls):
        cls.mesh.close()

    def logged(self, name, head):
        """What the program says about a server with this answer, and the request it sent."""
        fake = FakeServer(head)
        folder = os.path.join(self.mesh.folder, f"fake-{fake.port}")
        os.mkdir(folder)
        try:
            path = os.path.join(folder, f"{name}.yaml")
            with open(path, "w", encoding="utf-8") as f:
                text = self.mesh.read(name).replace(f"127.0.0.1:{self.mesh.http_port}", f"127.0.0.1:{fake.port}")
                f.write(text.replace(str(self.mesh.socks_port), "0"))
            program = Program(name, ["run", "--config", path], folder)
            try:
                wait_until(lambda: self.failure(program.text()), f"{name} to say what is wrong: {head.splitlines()[0]}")
                return self.failure(program.text()), fake.requests[0]
            finally:
                program.stop()
        finally:
            fake.close()

    @staticmethod
    def failure(text):
        return next((line for line in text.splitlines(True) if "connect_failed" in line and line.endswith("\n")), "")

    GOOD = "HTTP/1.1 101 Switching Protocols\n"
    CASES = (
        ("HTTP/1.1 200 OK\nContent-Length: 0\n\n", r"Upgrade and Connection.*http_status=200"),
        ("HTTP/1.1 400 Bad Request\nContent-Length: 0\n\n", r"Upgrade and Connection.*http_status=400"),
        ("HTTP/1.1 426 Upgrade Required\nUpgrade: websocket\nContent-Length: 0\n\n",
         r"Upgrade and Connection.*http_status=426"),
        ("HTTP/1.1 502 Bad Gateway\nContent-Length: 0\n\n", r"proxy"),
        (GOOD + "Connection: Upgrade\nSec-WebSocket-Accept: x\n\n", r"Upgrade: websocket"),
        (GOOD + "Upgrade: websocket\nSec-WebSocket-Accept: x\n\n", r"Connection: Upgrade"),
        (GOOD + "Upgrade: websocket\nConnection: Upgrade\n\n", r"Sec-WebSocket-Accept"),
        (GOOD + "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n",
         r"Sec-WebSocket-Accept"),
    )

    def test_the_client_says_which_header_is_missing(self):
        for head, wanted in self.CASES:
            said, _ = self.logged("client", head)
            self.assertRegex(said, wanted, head)
            self.assertNotIn(self.token, said)

    def test_the_agent_says_it_too(self):
        for head, wanted in (self.CASES[0], self.CASES[5]):
            said, _ = self.logged("agent", head)
            self.assertRegex(said, wanted, head)

    def test_neither_offers_an_extension(self):
        for name in ("client", "agent"):
            _, request = self.logged(name, self.CASES[0][0])
            self.assertNotIn("extensions", request.lower())
            self.assertIn("Upgrade: websocket", request)

    def test_the_server_accepts_no_extension_and_reads_on(self):
        offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, x-other"
        with Peer(self.mesh.http_port, "/ws/client", self.token, extra=(offer,)) as peer:
            self.assertNotIn("extensions", peer.head.lower())
            peer.send(PING, payload=b"12345678")
            self.assertEqual(peer.expect(PONG)[4], b"12345678")
            # A compressed message sets RSV1: nobody agreed to that.
            peer.send_ws(2, b"x", rsv=4)
            with self.assertRaises(Closed):
                while True:
                    peer.receive()

    def test_the_server_says_which_header_a_proxy_dropped(self):
        whole = request_text("/ws/client", "a", self.token).decode()
        for dropped, status, wanted in ((r"Upgrade: websocket\r\n", 426, "Upgrade: websocket"),
                                        (r"Connection: Upgrade\r\n", 426, "Connection: Upgrade"),
                                        (r"Sec-WebSocket-Version: 13\r\n", 426, "Sec-WebSocket-Version"),
                                        (r"Sec-WebSocket-Key: .*\r\n", 400, "Sec-WebSocket-Key"),
                                        (r"Origin: .*\r\n", 403, "Origin"),
                                        (r"Authorization: .*\r\n", 401, "Authorization")):
            text, n = re.subn(dropped, "", whole)
            self.assertEqual(n, 1)
            with socket.create_connection(("127.0.0.1", self.mesh.http_port), timeout=30) as s:
                s.sendall(text.encode())
                answer = b""
                while chunk := s.recv(4096):
                    answer += chunk
                    if wanted.encode() in answer.partition(b"\r\n\r\n")[2]:
                        break
            head, _, body = answer.partition(b"\r\n\r\n")
            self.assertIn(f" {status} ".encode(), head, dropped)
            self.assertIn(wanted.encode(), body, answer)
            self.assertNotIn(self.token.encode(), answer)


class Large(unittest.TestCase):
    def test_a_large_transfer_both_ways_with_digests(self):
        size = often(64, 1024) * MIB
        mesh = Mesh()

        def produce(s, seed):
            block = random.Random(seed).randbytes(MIB)
            digest = hashlib.sha256()
            for i in range(size // MIB):
                data = i.to_bytes(8, "big") + block[8:]
                digest.update(data)
                s.sendall(data)
            return digest.digest()

        def consume(s):
            digest, left = hashlib.sha256(), size
            while left:
                chunk = s.recv(min(left, 262144))
                if not chunk:
                    raise OSError(f"{left} bytes missing")
                digest.update(chunk)
                left -= len(chunk)
            return digest.digest()

        def both(s, seed):
            sent = []
            sender = threading.Thread(target=lambda: sent.append(produce(s, seed)))
            sender.start()
            got = consume(s)
            sender.join()
            return sent[0], got

        at_target = []
        target = Target(lambda s: at_target.append(both(s, 1)))
        try:
            with socks_connect(mesh.socks_port, "127.0.0.1", target.port, timeout_s=900) as s:
                begin = time.monotonic()
                sent, got = both(s, 2)
                took = time.monotonic() - begin
                wait_until(lambda: at_target, "the target's digests")
            print(f"{size // MIB} MiB each way in {took:.1f} s")
            self.assertEqual(at_target, [(got, sent)])
        finally:
            target.close()
            mesh.close()


if __name__ == "__main__":
    unittest.main()
