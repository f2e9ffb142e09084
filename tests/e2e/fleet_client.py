"""Deployed clients of versions 8 to 11, scripted.

    V8   offers no sub-protocol; legacy opens, no windows
    V9   offers three; strict, windows; a write beyond the credit fails (LESSONS Z5); UDP with a
         window and no credit for it (Z1); no hello, no PING; half-close
    V10  a pool: PING with an id of 8 bytes; Close() sends HALF_CLOSE and forgets the stream,
         and its streams have no half-close of their own (Z2)
    V11  offers .metadata before the three; CLIENT_HELLO first, as Go writes JSON; updates
"""

import contextlib
import socket

from fleet import Link
from fleet_versions import BOTH_WAYS, CHUNK, V9, WAIT_S, WINDOW, go_json
from wire import (CLIENT_HELLO, CLIENT_METADATA_ACK, CLIENT_METADATA_UPDATE, DATA, OFFERS, OPEN_RESULT, PING, PONG,
                  Peer, Rejected, accept_key, open_payload)

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Refused(Exception):
    def __init__(self, result):
        super().__init__(str(result))
        self.result = result


class WindowExhausted(OSError):
    """What a V9 client makes of a write that its credit does not cover."""


class Flow:
    """One stream as the program behind a deployed client uses it."""

    def __init__(self, client, stream):
        self.client, self.link, self.stream = client, client.link, stream
        self.is_forgotten = False

    def sendall(self, data):
        for at in range(0, len(data), CHUNK):
            self._send(data[at:at + CHUNK])

    def _send(self, piece):
        while piece:
            with self.link.lock:
                credit = self.stream.credit_out
                if self.client.version.number == V9.number and credit is not None and len(piece) > credit:
                    raise WindowExhausted(f"window exhausted: {credit} of {len(piece)}")
            n = self.link.wait_credit(self.stream, len(piece))
            if n == 0 or not self.link.data(self.stream, piece[:n]):
                raise ConnectionResetError("stream over")
            piece = piece[n:]

    def recv(self, n):
        """Up to n bytes, b"" at the end; ConnectionResetError if the stream broke."""
        with self.link.lock:
            stream = self.stream
            if not stream.changed.wait_for(lambda: stream.inbox or stream.ended_in or stream.reset_in
                                           or self.link.closed, WAIT_S):
                raise TimeoutError(f"nothing came within {WAIT_S} s")
            if stream.inbox:
                piece = stream.inbox.popleft()
                if len(piece) > n:
                    stream.inbox.appendleft(piece[n:])
                    piece = piece[:n]
                self.link.consumed(stream, len(piece))
                return piece
            if stream.ended_in:
                return b""
            raise ConnectionResetError("stream reset" if stream.reset_in else "link gone")

    def receive_exactly(self, n):
        data = bytearray()
        while len(data) < n:
            piece = self.recv(n - len(data))
            if not piece:
                raise OSError(f"end of stream after {len(data)} of {n} bytes")
            data += piece
        return bytes(data)

    def read_to_end(self):
        data = bytearray()
        while piece := self.recv(1 << 20):
            data += piece
        return bytes(data)

    def finish(self):
        """Half-close, where the version has one."""
        assert not self.client.version.pools, "pooled streams cannot half-close"
        self.link.half_close(self.stream)

    def close(self):
        """HALF_CLOSE, and whatever still comes is ignored (WIRE 1.12)."""
        self.is_forgotten = True
        self.link.half_close(self.stream)

    def abort(self):
        self.link.reset(self.stream)


class FleetClient:
    """x/net's client handshake, then the frames of its version. No deployed client names
    capabilities; a test that plays one of ours does."""

    def __init__(self, version, port, token, agent_id, offers=None, capabilities=()):
        self.version, self.port, self.token, self.agent_id = version, port, token, agent_id
        self.capabilities = list(capabilities)
        self.revision, self.pongs, self.acks = 0, [], []
        default = {8: (), 9: OFFERS[1:], 10: OFFERS[1:], 11: OFFERS}[version.number]
        offers = default if offers is None else offers
        try:
            peer = self._dial(offers)
        except Rejected:
            if not offers:
                raise
            peer, offers = self._dial(()), ()  # Go: once more without an offer
        self.protocol = peer.protocol
        self.strict = self.protocol in OFFERS[:3]
        self.windows = self.protocol in OFFERS[:2]
        hello = self.protocol == OFFERS[0]
        self.link = Link(peer.s, peer.buffer, "client", version, self._on_frame, self.strict, self.windows, hello)
        self._check_answer(peer, offers)
        if hello:
            self.send_metadata(CLIENT_HELLO)
        self.link.start()

    def _dial(self, offers):
        return Peer(self.port, "/ws/client", self.token, offers, origin=f"http://127.0.0.1:{self.port}", key=KEY)

    def _check_answer(self, peer, offers):
        """What makes x/net's client give up: it takes no value it did not offer, and no extension."""
        fields = [line.partition(":") for line in peer.head.split("\r\n")[1:]]
        head = {name.strip().lower(): value.strip() for name, _, value in fields}
        self.link.check(len(head) == len(fields), "a header field twice")
        self.link.check(head.get("upgrade", "").lower() == "websocket", "no Upgrade")
        self.link.check(head.get("connection", "").lower() == "upgrade", "no Connection: Upgrade")
        self.link.check(head.get("sec-websocket-accept") == accept_key(KEY), "a wrong Sec-WebSocket-Accept")
        self.link.check("sec-websocket-extensions" not in head, "an extension")
        self.link.check(self.protocol is None or self.protocol in offers, f"{self.protocol} was not offered")

    def send_metadata(self, kind=CLIENT_METADATA_UPDATE):
        self.revision += 1
        body = {"capabilities": self.capabilities} if self.capabilities else {}
        self.link.send(kind, payload=go_json(body | {
            "instance_id": "client-" + "0123456789abcdef" * 2, "connection_slot": 1, "agent_ids": [self.agent_id],
            "version": "v1.2.4", "commit": "<none>", "platform": "linux/amd64", "hostname": "laptop",
            "process_start_at": "0001-01-01T00:00:00Z", "reported_at": "2026-09-24T07:08:09.123456789+08:00",
            "revision": self.revision,
            "listeners": [{"protocol": "socks5", "listenAddress": "127.0.0.1:1080", "agentId": self.agent_id,
                           "enabled": True}],
            "items": [{"name": "region", "source": "env", "value": "<eu & us>", "redacted": False}]}))

    def _on_frame(self, link, kind, stream, payload, _window):
        if kind == DATA:
            stream.inbox.append(payload)
        elif kind == PONG:
            self.pongs.append(payload)
        elif kind == CLIENT_METADATA_ACK:
            self.acks.append(payload)
        elif kind is not None and kind not in BOTH_WAYS and kind != OPEN_RESULT and not link.goaway:
            link.fault(f"nothing to do with type {kind}")

    def open(self, host, port, protocol="tcp", window=None):
        """Sends the open; Go opens UDP legacy even on strict links."""
        strict = self.strict and protocol != "udp"
        window = (WINDOW if self.windows else 0) if window is None else window
        stream = self.link.open(open_payload(host, port, self.agent_id, protocol), strict, window)
        if protocol == "udp":  # announced all the same, and neither heeded nor credited (LESSONS Z1)
            with self.link.lock:
                stream.is_udp, stream.windowed, stream.credit_out = True, False, None
        return Flow(self, stream)

    def connect(self, host, port):
        """The stream once it may be used: at once if legacy, else after its answer."""
        flow = self.open(host, port)
        self.result(flow.stream)
        return flow

    def result(self, stream):
        self.link.wait(lambda: stream.answer or stream.over or self.link.closed, "an answer")
        if stream.answer is None:
            raise ConnectionResetError("reset instead of an answer")
        if not stream.answer["accepted"]:
            raise Refused(stream.answer)

    def ping(self):
        """The pool's sampler; also a barrier: what the server sent before has been read."""
        assert self.version.pools and self.windows
        payload = len(self.pongs).to_bytes(8, "big")
        before = len(self.pongs)
        self.link.send(PING, payload=payload)
        self.link.wait(lambda: len(self.pongs) > before, "a PONG")
        self.link.check(self.pongs[-1] == payload, "PONG is no copy of PING")

    def close(self):
        with contextlib.suppress(OSError):
            self.link.s.shutdown(socket.SHUT_WR)
        self.link.close()
