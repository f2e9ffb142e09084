"""The wire protocol in Python, written from the protocol description alone: a scripted
peer for tests that must send what our own code never would."""

import base64
import hashlib
import json
import os
import socket
import struct

OPEN_STREAM, DATA, HALF_CLOSE, RESET, WINDOW_UPDATE, GOAWAY, PING, PONG = range(1, 9)
AGENT_HELLO, AGENT_METADATA_UPDATE, AGENT_METADATA_ACK = 9, 10, 11
OPEN_RESULT, CLIENT_HELLO, CLIENT_METADATA_UPDATE, CLIENT_METADATA_ACK = 15, 16, 17, 18
STRICT = 4
OFFERS = ("tunnelmesh.v1.open-result.flow-control.metadata", "tunnelmesh.v1.open-result.flow-control",
          "tunnelmesh.v1.open-result", "tunnelmesh.v1")


def frame(kind, stream=0, payload=b"", flags=0, window=0, version=1, length=None):
    return struct.pack(">BBHIII", version, kind, flags, stream, len(payload) if length is None else length,
                       window) + payload


def parse(message):
    version, kind, flags, stream, length, window = struct.unpack(">BBHIII", message[:16])
    assert version == 1 and len(message) >= 16 + length, message[:32]
    return kind, flags, stream, window, message[16:16 + length]


def open_payload(host, port, agent="", protocol="tcp", **more):
    body = {"agent_id": agent, "protocol": protocol, "target_host": host, "target_port": port, **more}
    return json.dumps({k: v for k, v in body.items() if v != ""}).encode()


def accept_key(key):
    """What a server answers to a Sec-WebSocket-Key (RFC 6455 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()


def encode_ws(opcode, payload, fin=True, masked=True, rsv=0):
    first = (0x80 if fin else 0) | (rsv << 4) | opcode
    mask_bit = 0x80 if masked else 0
    n = len(payload)
    if n < 126:
        head = struct.pack(">BB", first, mask_bit | n)
    elif n < 65536:
        head = struct.pack(">BBH", first, mask_bit | 126, n)
    else:
        head = struct.pack(">BBQ", first, mask_bit | 127, n)
    if masked:
        key = os.urandom(4)
        head += key
        payload = mask(payload, key)
    return head + payload


class Rejected(Exception):
    def __init__(self, status, head):
        super().__init__(f"HTTP {status}")
        self.status = status
        self.head = head


class Closed(Exception):
    pass


def request_text(path, host, token=None, offers=(), origin="http://test.example", extra=(), key=None):
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: " + (key or base64.b64encode(os.urandom(16)).decode())]
    if origin is not None:
        lines.append(f"Origin: {origin}")
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    if offers:
        lines.append("Sec-WebSocket-Protocol: " + ", ".join(offers))
    lines.extend(extra)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Peer:
    """A WebSocket client that can misbehave on request."""

    def __init__(self, port, path, token=None, offers=(), timeout_s=30.0, raw_request=None, **request):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.buffer = b""
        self.s.sendall(raw_request or request_text(path, f"127.0.0.1:{port}", token, offers, **request))
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = self.s.recv(4096)
            if not chunk:
                self.s.close()
                raise Closed(f"closed inside the head: {head!r}")
            head += chunk
        head, _, self.buffer = head.partition(b"\r\n\r\n")
        self.head = head.decode("latin-1")
        status = int(self.head.split()[1])
        if status != 101:
            self.s.close()
            raise Rejected(status, self.head)

    @property
    def protocol(self):
        for line in self.head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "sec-websocket-protocol":
                return value.strip()
        return None

    def send_ws(self, opcode, payload, **more):
        self.s.sendall(self.encode_ws(opcode, payload, **more))

    def send_together(self, *frames):
        """Several frames in one write, so that the server reads them in one go."""
        self.s.sendall(b"".join(self.encode_ws(2, f) for f in frames))

    def encode_ws(self, opcode, payload, **more):
        return encode_ws(opcode, payload, **more)

    def send(self, *arguments, **more):
        self.send_ws(2, frame(*arguments, **more))

    def _take(self, n):
        while len(self.buffer) < n:
            try:
                chunk = self.s.recv(65536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise Closed("end of stream")
            self.buffer += chunk
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def receive_ws(self):
        first, second = self._take(2)
        assert not second & 0x80, "a server must not mask"
        assert first & 0x80, "our programs never fragment"
        n = second & 0x7F
        if n == 126:
            n = struct.unpack(">H", self._take(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self._take(8))[0]
        return first & 0x0F, self._take(n)

    def receive(self):
        """The next protocol frame; answers WebSocket pings; Closed at the end."""
        while True:
            opcode, payload = self.receive_ws()
            if opcode == 9:
                self.send_ws(10, payload)
            elif opcode == 8:
                raise Closed("close frame " + payload[:2].hex())
            elif opcode == 2:
                return parse(payload)

    def expect(self, kind, stream=None):
        while True:
            got = self.receive()
            if got[0] == kind and (stream is None or got[2] == stream):
                return got

    def close(self):
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def mask(payload, key):
    n = len(payload)
    pad = key * (n // 4 + 1)
    return (int.from_bytes(payload, "big") ^ int.from_bytes(pad[:n], "big")).to_bytes(n, "big")
