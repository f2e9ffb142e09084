"""Origins and clients for the HTTP entries: raw messages, so that a test sees every byte."""

import base64
import contextlib
import hashlib
import os
import socket
import ssl
import struct

from harness import WAIT_S, Target


class Reader:
    """Messages out of one socket, one after the other."""

    def __init__(self, s):
        self.socket = s
        self.buffer = b""

    def fill(self):
        chunk = self.socket.recv(65536)
        self.buffer += chunk
        return len(chunk) > 0

    def until(self, mark):
        while mark not in self.buffer:
            if not self.fill():
                raise EOFError(f"the connection ended within {self.buffer[:200]!r}")
        at = self.buffer.index(mark) + len(mark)
        out, self.buffer = self.buffer[:at], self.buffer[at:]
        return out

    def exactly(self, n):
        while len(self.buffer) < n:
            if not self.fill():
                raise EOFError(f"the connection ended after {len(self.buffer)} of {n} bytes")
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def rest(self):
        while self.fill():
            pass
        out, self.buffer = self.buffer, b""
        return out

    def head(self):
        return self.until(b"\r\n\r\n")

    def chunks(self):
        """The wire form of a chunked body, trailers included."""
        out = b""
        while True:
            line = self.until(b"\r\n")
            out += line
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            out += self.exactly(size + 2)
        while line := self.until(b"\r\n"):
            out += line
            if line == b"\r\n":
                return out

    def body(self, head, is_response=False):
        fields = fields_of(head)
        if fields.get("transfer-encoding", "").lower() == "chunked":
            return self.chunks()
        if "content-length" in fields:
            return self.exactly(int(fields["content-length"]))
        return self.rest() if is_response else b""

    def answer(self, method="GET"):
        """Head and body of the next answer that is final."""
        while True:
            head = self.head()
            status = status_of(head)
            if status >= 200:
                break
        if method == "HEAD" or status in (204, 304):
            return head, b""
        return head, self.body(head, True)


def fields_of(head):
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


def status_of(head):
    return int(head.split()[1])


def message(first, body=b"", **fields):
    lines = [first] + [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Origin(Target):
    """Answers by path, with keep-alive; keeps every head it got."""

    def __init__(self, host="127.0.0.1", tls=None):
        self.heads = []
        self.tls = tls
        super().__init__(host=host)

    def handle(self, s):
        if not self.tls:
            return self.converse(s)
        with self.tls.wrap_socket(s, server_side=True) as secure:
            self.converse(secure)

    def converse(self, s):
        reader = Reader(s)
        is_over = False
        while not is_over:
            try:
                head = reader.head()
            except EOFError:
                return
            self.heads.append(head)
            path = head.split()[1].decode()
            is_over = self.serve(s, reader, head, path.partition("?")[0].strip("/").split("/"))
        end(s)

    def serve(self, s, reader, head, path):
        """True: the connection ends."""
        handler = getattr(self, "on_" + path[0], None)
        if handler is None:
            reader.body(head)
            s.sendall(message("HTTP/1.1 200 OK", head, Content_Length=len(head), Content_Type="text/plain"))
            return False
        return handler(s, reader, head, path[1:])

    def on_bytes(self, s, reader, head, arguments):
        reader.body(head)
        n = int(arguments[0])
        s.sendall(message("HTTP/1.1 200 OK", Content_Length=n))
        block = pattern(65536)
        for at in range(0, n, len(block)):
            s.sendall(block[:min(len(block), n - at)])
        return False

    def on_close(self, s, reader, head, arguments):
        """Without a length: the end of the connection ends the body."""
        n = int(arguments[0])
        fields = {"Content_Length": n} if arguments[1:] else {}
        s.sendall(message("HTTP/1.1 200 OK", pattern(n), Connection="close", **fields))
        return True

    def on_cut(self, s, reader, head, arguments):
        s.sendall(message("HTTP/1.1 200 OK", b"x" * 1000, Content_Length=5000))
        return True

    def on_count(self, s, reader, head, arguments):
        body = str(len(reader.body(head))).encode()
        s.sendall(message("HTTP/1.1 200 OK", body, Content_Length=len(body)))
        return False

    def on_chunks(self, s, reader, head, arguments):
        """Sends the body back as it came."""
        s.sendall(message("HTTP/1.1 200 OK", reader.body(head), Transfer_Encoding="chunked", Trailer="X-Sum"))
        return False

    def on_expect(self, s, reader, head, arguments):
        what = arguments[0]
        if what in ("417", "403"):
            s.sendall(message(f"HTTP/1.1 {what} No", b"no", Content_Length=2))
            return True
        if what == "100":
            s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = reader.body(head)
        s.sendall(message("HTTP/1.1 200 OK", body, Content_Length=len(body)))
        return False

    def on_split(self, s, reader, head, arguments):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx")
        return True

    def on_away(self, s, reader, head, arguments):
        host = fields_of(head)["host"]
        s.sendall(message("HTTP/1.1 302 Found", Content_Length=0, Location=f"http://{host}/here"))
        return False

    def on_ws(self, s, reader, head, arguments):
        accept_web_socket(s, reader, fields_of(head))
        return True


def end(s):
    """Says that nothing follows, and waits until the other side has said so, too."""
    if isinstance(s, ssl.SSLSocket):
        with contextlib.suppress(OSError):
            s.unwrap().close()
        return
    s.shutdown(socket.SHUT_WR)
    Reader(s).rest()


def pattern(n):
    block = bytes(range(256)) * 4
    return (block * (n // len(block) + 1))[:n]


# --- RFC 6455 ---------------------------------------------------------------------------------

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE = 2, 8


def frame(opcode, payload, mask=None):
    length = len(payload)
    flag = 0x80 if mask else 0
    if length < 126:
        head = struct.pack("!BB", 0x80 | opcode, flag | length)
    elif length < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, flag | 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, flag | 127, length)
    if mask:
        payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return head + (mask or b"") + payload


def read_frame(reader):
    first, second = reader.exactly(2)
    length = second & 0x7F
    if length == 126:
        length = struct.unpack("!H", reader.exactly(2))[0]
    elif length == 127:
        length = struct.unpack("!Q", reader.exactly(8))[0]
    mask = reader.exactly(4) if second & 0x80 else None
    payload = reader.exactly(length)
    if mask:
        payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return first & 0x0F, payload


def accept_web_socket(s, reader, fields):
    """The server's half: greets at once, echoes until CLOSE, answers that, half-closes."""
    digest = base64.b64encode(hashlib.sha1(fields["sec-websocket-key"].encode() + GUID).digest()).decode()
    s.sendall(message("HTTP/1.1 101 Switching Protocols", Upgrade="websocket", Connection="Upgrade",
                      Sec_WebSocket_Accept=digest) + frame(BINARY, b"greeting"))
    while True:
        opcode, payload = read_frame(reader)
        s.sendall(frame(opcode, payload))
        if opcode == CLOSE:
            return


class WebSocket:
    """A client of a WebSocket server over a connected socket."""

    def __init__(self, s, target, host, **fields):
        key = base64.b64encode(os.urandom(16)).decode()
        s.sendall(message(f"GET {target} HTTP/1.1", Host=host, Connection="keep-alive, Upgrade", Upgrade="websocket",
                          Sec_WebSocket_Version=13, Sec_WebSocket_Key=key, **fields))
        self.socket = s
        self.reader = Reader(s)
        head = self.reader.head()
        if status_of(head) != 101:
            raise AssertionError(head)
        wanted = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
        assert fields_of(head)["sec-websocket-accept"] == wanted, head
        self.greeting = read_frame(self.reader)

    def send(self, payload, opcode=BINARY):
        self.socket.sendall(frame(opcode, payload, os.urandom(4)))

    def receive(self):
        return read_frame(self.reader)

    def close(self):
        """Closes as the protocol wants; what the connection says last."""
        self.send(b"\x03\xe8", CLOSE)
        assert self.receive() == (CLOSE, b"\x03\xe8")
        self.socket.shutdown(socket.SHUT_WR)
        rest = self.reader.rest()
        self.socket.close()
        return rest


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
