"""Deployed agents of versions 8 to 11, scripted; targets are really dialled.

    V8       announces nothing: legacy opens, no OPEN_RESULT, no windows; dials inside its reader;
             leaves instance and connection id out; a failed dial may end its whole session
    V9, V10  announce only stream_open_result.v1; a window > 0 is the sign for windows; OPEN_RESULT
             without the members that are false or zero; PING is empty
    V11      the same with larger buffers
    all      end the session on GOAWAY at once; messages of at most 1 MiB with the header; an
             OPEN_STREAM they cannot use ends the session (LESSONS Z10)
"""

import contextlib
import json
import socket
import threading

from fleet import Link
from fleet_versions import CHUNK, WAIT_S, go_json
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, DATA, GOAWAY, HALF_CLOSE, OPEN_STREAM, PING, PONG,
                  RESET, WINDOW_UPDATE, Peer)


class FleetAgent:
    epochs = 0

    def __init__(self, version, port, token, agent_id, fatal_dials=False, expect_windows=True):
        self.version, self.agent_id, self.fatal_dials = version, agent_id, fatal_dials
        self.ack, self.pongs, self.sockets = None, [], []
        self.expect_windows = expect_windows and version.windows
        FleetAgent.epochs += 1
        peer = Peer(port, "/ws/agent", token, origin=f"http://127.0.0.1:{port}")
        self.link = Link(peer.s, peer.buffer, "agent", version, self._on_frame, version.strict, version.windows)
        self.link.check(peer.protocol is None, "a sub-protocol for an agent")
        body = {"agent_id": agent_id, "node_id": agent_id, "epoch": FleetAgent.epochs, "revision": 1,
                "reported_at": "2026-09-24T07:08:09.123456789+08:00", "items": []}
        if version.number > 8:
            body |= {"instance_id": "agent-" + "0123456789abcdef" * 2, "connection_id": f"slot-{FleetAgent.epochs}",
                     "capabilities": ["stream_open_result.v1"]}
        self.link.send(AGENT_HELLO, payload=go_json(body))
        self.link.start()
        self.link.wait(lambda: self.ack or self.link.closed, "an acknowledgement")
        self.link.check(self.ack and self.ack["accepted"], f"acknowledged with {self.ack}")
        if version.number > 8 and self.ack:
            # Go enables strict opens by this alone.
            self.link.strict = "stream_open_result.v1" in self.ack.get("capabilities", [])

    def _on_frame(self, link, kind, stream, payload, window):
        if kind == OPEN_STREAM:
            link.check((window > 0) == self.expect_windows, f"an open with window {window}")
            # The real dial never blocks a reader from V9 on; on loopback nobody could tell.
            if self.version.number == 8:
                self._serve(stream)
            else:
                threading.Thread(target=self._serve, args=(stream,), daemon=True).start()
        elif kind in (DATA, HALF_CLOSE, RESET):
            stream.inbox.append(payload if kind == DATA else None)
            if kind == RESET:
                self._abort(stream)
        elif kind == PONG:
            self.pongs.append(payload)
        elif kind == AGENT_METADATA_ACK:
            self.ack = json.loads(payload)
        elif kind == GOAWAY:
            link.closing = True
            link._end()
        elif kind is not None and kind != WINDOW_UPDATE:
            link.fault(f"nothing to do with type {kind}")

    def _serve(self, stream):
        try:
            target = socket.create_connection((stream.body["target_host"], stream.body["target_port"]), timeout=WAIT_S)
        except OSError as error:
            return self._refuse(stream, error)
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.link.lock:
            self.sockets.append(target)
            stream.target = target
            if stream.over:
                self._abort(stream)
                return
            if stream.strict:
                self.link.answer(stream, {"accepted": True, "stage": "connect", "code": "ok"})
        for pump in (self._to_target, self._from_target):
            threading.Thread(target=pump, args=(stream, target), daemon=True).start()

    def _refuse(self, stream, error):
        code = "connection_refused" if isinstance(error, ConnectionRefusedError) else "timeout"
        if stream.strict:
            self.link.answer(stream, {"accepted": False, "stage": "connect", "code": code,
                                      "retryable": code == "timeout"})
        elif self.fatal_dials:
            self.link.closing = True
            self.link._end()
        else:
            self.link.reset(stream, b"stream rejected")

    def _abort(self, stream):
        """The target shall see a reset; whoever reads from it closes it."""
        target = getattr(stream, "target", None)
        if target is not None:
            with contextlib.suppress(OSError):
                target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                target.shutdown(socket.SHUT_RD)

    def _to_target(self, stream, target):
        try:
            while True:
                with self.link.lock:
                    stream.changed.wait_for(lambda: stream.inbox or self.link.closed or stream.reset_in)
                    if not stream.inbox or stream.reset_in:
                        return self._abort(stream)
                    piece = stream.inbox.popleft()
                if piece is None:
                    return target.shutdown(socket.SHUT_WR)
                target.sendall(piece)
                self.link.consumed(stream, len(piece))
        except OSError:
            self.link.reset(stream, b"stream rejected")

    def _from_target(self, stream, target):
        try:
            while True:
                room = self.link.wait_credit(stream, CHUNK)
                piece = target.recv(room) if room else b""
                if not piece:
                    break
                self.link.data(stream, piece)
            self.link.half_close(stream)
        except OSError:
            self.link.reset(stream, b"stream rejected")
        if stream.reset_in or stream.reset_out or self.link.closed:
            target.close()

    def ping(self):
        """Empty, as every 30 s; a barrier, too."""
        before = len(self.pongs)
        self.link.send(PING)
        self.link.wait(lambda: len(self.pongs) > before, "a PONG")

    def close(self):
        self.link.close()
        for s in self.sockets:
            s.close()
