"""Deployed servers of versions 8 to 11, scripted: what a client sends goes to the agent and back.

    V8       refuses an offer of several sub-protocols (x/net: 403 or 400) and selects none;
             legacy opens, no windows
    V9, V10  select the first of three they know; echo the agent's capabilities unchanged; pass the
             client's window and, renumbered, the agent's credit on; return credit to the agent for
             what they passed on; keep at most 16 DATA frames per agent stream (LESSONS Z3); RESET
             says "stream rejected"; never PING
    V9       passes the client's credit on to the agent, too: the same bytes are credited twice (R1)
    V10      says connection_pool_supported
    V11      .metadata and CLIENT_METADATA_ACK, which has no capabilities
    all      answer a frame for an unknown stream of a client with RESET, even a RESET
"""

import base64
import contextlib
import json
import socket
import threading

from fleet import Link
from fleet_versions import ORIGIN, THRESHOLD, WAIT_S, go_json
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, AGENT_METADATA_UPDATE, CLIENT_HELLO, CLIENT_METADATA_ACK,
                  CLIENT_METADATA_UPDATE, DATA, GOAWAY, HALF_CLOSE, OFFERS, OPEN_RESULT, OPEN_STREAM, RESET,
                  WINDOW_UPDATE, accept_key)

REJECTED = b"stream rejected"
FRAMES_MAX = 16


class Nobody:
    """In the place of a client's stream: takes everything and says nothing."""

    over, windowed, partner, inbox = True, False, None, ()

    def __init__(self):
        self.link = self

    def answer(self, *_):
        pass

    reset = half_close = answer


class FleetServer:
    """`refuse_status` is what a list of sub-protocols gets from a V8. acks=False keeps the
    acknowledgement of the next agent back (Z4); send_ack() makes up for it."""

    def __init__(self, version, port, refuse_status=403, acks=True, pong_delay_s=0.0):
        self.version, self.refuse_status, self.acks = version, refuse_status, acks
        self.pong_delay_s = pong_delay_s
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.links, self.faults, self.requests, self.hellos = [], [], [], []
        self.agent = self.client = self.ack = None
        self.strict_agent = False
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    # --- upgrade ---

    def _accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._upgrade, args=(s,), daemon=True).start()

    def _upgrade(self, s):
        data = b""
        s.settimeout(WAIT_S)
        with contextlib.suppress(OSError):
            while b"\r\n\r\n" not in data:
                chunk = s.recv(65536)
                if not chunk:  # somebody looks whether the port answers
                    return s.close()
                data += chunk
            s.settimeout(None)
            head, _, rest = data.partition(b"\r\n\r\n")
            self._answer(s, head.decode("latin-1"), rest)

    def _answer(self, s, head, rest):
        request, *lines = head.split("\r\n")
        fields = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        names = [name for name, _ in fields]
        head = dict(fields)
        method, path, version = request.split(" ")
        offers = [o.strip() for o in head.get("sec-websocket-protocol", "").split(",") if o.strip()]
        for good, text in (
                (method == "GET" and version == "HTTP/1.1" and path in ("/ws/client", "/ws/agent"), request),
                (len(set(names)) == len(names), f"header fields {names}"),
                (ORIGIN.fullmatch(head.get("origin", "")), f"Origin {head.get('origin')}"),
                (head.get("authorization", "").startswith("Bearer "), "no bearer token"),
                (head.get("upgrade", "").lower() == "websocket", "no Upgrade"),
                ("upgrade" in head.get("connection", "").lower(), "no Connection: Upgrade"),
                (head.get("sec-websocket-version") == "13", "WebSocket version"),
                (len(base64.b64decode(head.get("sec-websocket-key", ""))) == 16, "Sec-WebSocket-Key"),
                ("sec-websocket-extensions" not in head, "an extension offered"),
                (path != "/ws/agent" or not offers, "an agent offers sub-protocols")):
            if not good:
                self.faults.append(f"{self.version} server: {text}")
        with self.lock:
            self.requests.append((path, tuple(offers)))
            self.changed.notify_all()
        chosen = None
        if self.version.number == 8:
            if len(offers) > 1:
                s.sendall(f"HTTP/1.1 {self.refuse_status} No\r\nContent-Length: 0\r\n\r\n".encode())
                return s.close()
            chosen = offers[0] if offers else None  # x/net echoes a single one without looking
        elif offers:
            chosen = next((o for o in OFFERS[0 if self.version.hello else 1:] if o in offers), None)
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Accept: " + accept_key(head["sec-websocket-key"])]
        if chosen:
            lines.append("Sec-WebSocket-Protocol: " + chosen)
        s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        knows = chosen if self.version.number > 8 else None
        with self.lock:
            if path == "/ws/agent":
                link = Link(s, rest, "server of an agent", self.version, self._on_agent, self.version.strict,
                            self.version.windows, lock=self.lock)
            else:
                link = Link(s, rest, "server of a client", self.version, self._on_client, knows in OFFERS[:3],
                            knows in OFFERS[:2], knows == OFFERS[0], lock=self.lock)
                self.client = link
            link.protocol, link.pong_delay_s = chosen, self.pong_delay_s
            self.links.append(link)
            self.changed.notify_all()
        link.start()

    # --- agent side ---

    def send_ack(self):
        self.agent.send(AGENT_METADATA_ACK, payload=go_json(self.ack))

    def _on_agent(self, link, kind, stream, payload, window):
        if kind in (AGENT_HELLO, AGENT_METADATA_UPDATE):
            hello = json.loads(payload)
            self.hellos.append(hello)
            self.ack = {"agent_id": hello["agent_id"], "epoch": hello["epoch"], "revision": hello["revision"],
                        "accepted": True}
            if self.version.number > 8:
                self.ack["capabilities"] = hello.get("capabilities", [])
            if self.version.pools:
                self.ack |= {"connection_pool_supported": True, "max_connections_per_agent": 64}
            self.agent = link
            link.wants_strict = "stream_open_result.v1" in self.ack.get("capabilities", [])
            if self.acks:
                self.send_ack()
            self.changed.notify_all()
        elif kind is None:
            for client_side in [s.partner for s in link.streams.values() if not s.over]:
                client_side.link.reset(client_side, REJECTED)
            if self.agent is link:
                self.agent = None
        elif kind == OPEN_RESULT:
            client_side = stream.partner
            client_side.link.answer(client_side, stream.answer)
        elif kind in (DATA, HALF_CLOSE, RESET):
            self._from_agent(stream, kind, payload)
        elif kind == WINDOW_UPDATE:
            # The client's credit is the agent's: passed on with the client's id.
            client_side = stream.partner
            if client_side.windowed:
                client_side.link.grant(client_side, window)
            self._pump_up(client_side)

    def _from_agent(self, stream, kind, payload):
        client_side = stream.partner
        if kind == RESET:
            return client_side.link.reset(client_side, REJECTED)
        stream.inbox.append(payload if kind == DATA else None)
        self._pump_down(client_side)
        if self.version.windows and len(stream.inbox) > FRAMES_MAX:
            stream.link.fault(f"more than {FRAMES_MAX} DATA frames wait for stream {stream.id}")
            stream.link.reset(stream, REJECTED)
            client_side.link.reset(client_side, REJECTED)

    def _pump_down(self, client_side):
        """As much towards the client as its window takes; a frame is passed on whole or waits."""
        stream = client_side.partner
        while stream.inbox and not client_side.over:
            piece = stream.inbox[0]
            if piece is None:
                stream.inbox.popleft()
                client_side.link.half_close(client_side)
                continue
            room = client_side.credit_out
            n = len(piece) if room is None else min(room, len(piece))
            if n == 0:
                return
            client_side.link.data(client_side, piece[:n])
            if n < len(piece):
                stream.inbox[0] = piece[n:]
            else:
                stream.inbox.popleft()
            self._credit(stream, n)

    def _credit(self, stream, n):
        stream.uncredited += n
        if stream.windowed and stream.uncredited >= THRESHOLD:
            stream.link.grant(stream, stream.uncredited)
            stream.uncredited = 0

    # --- client side ---

    def _on_client(self, link, kind, stream, payload, window):
        if kind in (CLIENT_HELLO, CLIENT_METADATA_UPDATE):
            hello = json.loads(payload)
            self.hellos.append(hello)
            link.send(CLIENT_METADATA_ACK, payload=go_json({
                "client_instance_id": hello["instance_id"], "instance_id": hello["instance_id"],
                "connection_id": "client_" + "0" * 32, "revision": hello["revision"], "accepted": True}))
        elif kind is None:
            for agent_side in [s.partner for s in link.streams.values() if s.partner and not s.over]:
                agent_side.link.reset(agent_side, REJECTED)
        elif kind == OPEN_STREAM:
            self._open(link, stream, payload, window)
        elif kind == DATA:
            stream.inbox.append(payload)
            self._pump_up(stream)
        elif kind == HALF_CLOSE and stream.partner:
            stream.inbox.append(None)
            self._pump_up(stream)
        elif kind == RESET and stream.partner:
            stream.partner.link.reset(stream.partner, REJECTED)
        elif kind == WINDOW_UPDATE and stream.partner:
            self._pump_down(stream)
            if stream.partner.windowed and self.version.number == 9:
                stream.partner.link.grant(stream.partner, window)  # the second credit for the same bytes (R1)

    def _open(self, link, stream, payload, window):
        stream.partner = None
        agent = self.agent
        if agent is None or (stream.strict and not agent.wants_strict):
            code = {"stage": "selection", "code": "agent_offline", "retryable": True}
            if agent is not None:
                code = {"stage": "relay", "code": "unsupported_capability"}
            if stream.strict:
                return link.answer(stream, {"accepted": False, **code})
            return link.reset(stream, REJECTED)
        window = window if self.version.windows else 0
        stream.partner = agent.open(payload, stream.strict, window)
        stream.partner.partner = stream

    def _pump_up(self, client_side):
        stream = client_side.partner
        while stream and client_side.inbox and not stream.over:
            piece = client_side.inbox[0]
            if piece is None:
                client_side.inbox.popleft()
                stream.link.half_close(stream)
                continue
            n = len(piece) if stream.credit_out is None else min(stream.credit_out, len(piece))
            if n == 0:
                return
            stream.link.data(stream, piece[:n])
            client_side.inbox[0] = piece[n:]
            if n == len(piece):
                client_side.inbox.popleft()

    # --- for tests ---

    def wait(self, condition, what):
        with self.lock:
            if not self.changed.wait_for(condition, WAIT_S):
                raise AssertionError(f"{self.version} server: waited {WAIT_S} s for {what}; {self.all_faults()}")

    def wait_ready(self, client=True, agent=True):
        self.wait(lambda: (not client or self.client) and (not agent or (self.agent and self.ack)), "its links")

    def all_faults(self):
        with self.lock:
            return self.faults + [f for link in self.links for f in link.faults]

    def open_at_agent(self, payload, strict, window):
        """A stream that no client asked for."""
        with self.lock:
            stream = self.agent.open(payload, strict, window)
            stream.partner = Nobody()
            stream.partner.partner = stream
            return stream

    def goaway(self, link, text=b"open limit reached"):
        link.send(GOAWAY, payload=text)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for link in list(self.links):
            link.close()
