"""Deployed programs of versions 8 to 11 as scripted peers: what their three roles share.

A scripted peer does what its version does, quirks included, and is strict: whatever its
version would drop a connection or a stream for, or does not know, is a fault, and a test
ends with check(), which fails on faults. Written from the protocol description alone.

A Link is one WebSocket with a reading and a writing thread. It keeps the books of every
stream: states, windows in both directions, and what was granted against what was taken.
"""

import contextlib
import json
import socket
import struct
import threading
from collections import deque

from fleet_versions import (ANSWERED_WITH_RESET, CHUNK, CODES, go_json, GO_TIME, HELLO_MEMBERS, KNOWN, LIMITS,
                            MESSAGE_MAX, OPEN_MEMBERS, STAGES, STREAM_FRAMES, THRESHOLD, WAIT_S, WINDOW)
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, AGENT_METADATA_UPDATE, CLIENT_HELLO, CLIENT_METADATA_ACK,
                  CLIENT_METADATA_UPDATE, DATA, GOAWAY, HALF_CLOSE, OPEN_RESULT, OPEN_STREAM, PING, PONG, RESET,
                  STRICT, WINDOW_UPDATE, encode_ws, frame, mask)


class Stream:
    """The books of one stream on one link."""

    def __init__(self, link, stream_id, strict, credit_out, credit_in):
        self.link, self.id, self.strict = link, stream_id, strict
        self.windowed = credit_in is not None
        self.is_udp = False
        self.window = credit_in
        self.credit_out, self.credit_in = credit_out, credit_in  # None = no windows
        self.sent = self.received = self.granted_in = self.granted_out = self.uncredited = 0
        self.answer = None if strict else {"accepted": True}
        self.ended_in = self.ended_out = self.reset_in = self.reset_out = False
        self.inbox = deque()
        self.changed = threading.Condition(link.lock)

    @property
    def over(self):
        return self.reset_in or self.reset_out or (self.ended_in and self.ended_out)


class Link:
    """handler(link, kind, stream, payload, window) is called with the lock held, and once with
    kind None at the end. Links that feed each other share one lock."""

    def __init__(self, s, buffer, role, version, handler, strict=False, windows=False, hello=False, lock=None):
        self.s, self.role, self.version, self.handler = s, role, version, handler
        self.strict, self.windows, self.hello = strict, windows, hello
        self.is_server = role.startswith("server")
        self.opens = role in ("client", "server of an agent")  # whether this scripted end opens the streams
        self.known = set(KNOWN[role])
        if strict and self.opens:
            self.known.add(OPEN_RESULT)
        if hello:
            self.known |= {CLIENT_METADATA_ACK} if role == "client" else {CLIENT_HELLO, CLIENT_METADATA_UPDATE}
        self.message_max = MESSAGE_MAX if role == "agent" else MESSAGE_MAX + 16
        self.lock = lock or threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.streams, self.faults, self.frames = {}, [], []
        self.next_in = self.next_out = 1
        self.closing = self.closed = self.goaway = False
        self.pong_delay_s = 0.0  # a path that is longer than it is
        self.buffer = bytearray(buffer)
        self.outgoing = deque()
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._read, self._write)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    # --- out ---

    def send(self, kind, stream=0, payload=b"", flags=0, window=0):
        self.send_message(frame(kind, stream, payload, flags, window))

    def send_message(self, message, opcode=2):
        with self.lock:
            self.outgoing.append(encode_ws(opcode, message, masked=not self.is_server))
            self.changed.notify_all()

    def _write(self):
        while True:
            with self.lock:
                self.changed.wait_for(lambda: self.outgoing or self.closed)
                if self.closed:
                    return
                data = b"".join(self.outgoing)
                self.outgoing.clear()
            try:
                self.s.sendall(data)
            except OSError:
                return self._end()

    def open(self, payload, strict, window):
        """A new stream of ours: its id is the next, as deployed openers count."""
        with self.lock:
            stream = Stream(self, self.next_out, strict, WINDOW if window else None, window or None)
            self.next_out += 1
            self.streams[stream.id] = stream
            self.send(OPEN_STREAM, stream.id, payload, STRICT if strict else 0, window)
            return stream

    def answer(self, stream, result):
        """OPEN_RESULT as Go encodes it: false and zero are left out."""
        with self.lock:
            stream.answer = {k: v for k, v in result.items() if v or k == "accepted"}
            self.send(OPEN_RESULT, stream.id, go_json(stream.answer))
            if not stream.answer["accepted"]:
                stream.reset_out = True

    def data(self, stream, payload):
        with self.lock:
            if stream.over or stream.ended_out:
                return False
            stream.sent += len(payload)
            if stream.credit_out is not None:
                stream.credit_out -= len(payload)
            self.send(DATA, stream.id, payload)
            return True

    def wait_credit(self, stream, want):
        """How much may be sent now; 0 once the stream is over."""
        with self.lock:
            if not stream.changed.wait_for(lambda: self.closed or stream.over or stream.credit_out is None
                                           or stream.credit_out > 0, WAIT_S):
                self.fault(f"no credit within {WAIT_S} s for stream {stream.id}")
                return 0
            if self.closed or stream.over:
                return 0
            return want if stream.credit_out is None else min(want, stream.credit_out)

    def consumed(self, stream, n):
        """The application took n bytes; credit goes back in steps of the threshold."""
        with self.lock:
            if not stream.windowed or stream.over or stream.ended_in:
                return
            stream.uncredited += n
            if stream.uncredited >= THRESHOLD:
                self.grant(stream, stream.uncredited)
                stream.uncredited = 0

    def grant(self, stream, n):
        with self.lock:
            if stream.over:
                return
            stream.credit_in += n
            stream.granted_out += n
            self.send(WINDOW_UPDATE, stream.id, window=n)

    def half_close(self, stream):
        with self.lock:
            if not stream.over and not stream.ended_out:
                stream.ended_out = True
                self.send(HALF_CLOSE, stream.id)
                stream.changed.notify_all()

    def reset(self, stream, text=b""):
        with self.lock:
            if not stream.over:
                stream.reset_out = True
                self.send(RESET, stream.id, text)
                stream.changed.notify_all()

    # --- in ---

    def _take(self, n):
        while len(self.buffer) < n:
            chunk = self.s.recv(262144)
            if not chunk:
                raise OSError("end")
            self.buffer += chunk
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def _message(self):
        first, second = self._take(2)
        n = second & 0x7F
        if n >= 126:
            n = int.from_bytes(self._take(2 if n == 126 else 8), "big")
        self.check(first & 0x80 and first & 0x0F != 0, "a message in fragments; it would be two messages")
        self.check(first & 0x70 == 0, "a reserved bit")
        self.check(bool(second & 0x80) == self.is_server, "wrong masking")
        self.check(n <= self.message_max, f"a message of {n} bytes")
        key = self._take(4) if second & 0x80 else None
        payload = self._take(n)
        return first & 0x0F, mask(payload, key) if key else payload

    def _read(self):
        try:
            while True:
                opcode, message = self._message()
                if opcode == 9:
                    self.send_message(message, opcode=10)
                elif opcode == 8:
                    break
                elif opcode != 10:
                    self.check(opcode == 2, f"a message of opcode {opcode}")
                    self._frame(message)
        except OSError:
            pass
        except Exception as error:  # a scripted peer that stumbles fails its test
            self.fault(f"{type(error).__name__}: {error}")
        self._end()

    def _frame(self, message):
        version, kind, flags, stream_id, length, window = struct.unpack(">BBHIII", message[:16])
        payload = message[16:]
        with self.lock:
            self.check(version == 1, f"frame version {version}")
            self.check(kind in self.known, f"frame type {kind} is unknown here")
            self.check(length == len(payload), f"length {length}, but {len(payload)} bytes follow")
            self.check(length <= LIMITS.get(kind, MESSAGE_MAX), f"{length} bytes in a frame of type {kind}")
            self.check((stream_id != 0) == (kind in STREAM_FRAMES), f"stream id {stream_id} with type {kind}")
            self.check(flags == 0 or kind == OPEN_STREAM, f"flags {flags:#x} with type {kind}")
            self.check(window == 0 or kind in (OPEN_STREAM, WINDOW_UPDATE), f"window {window} with type {kind}")
            self._order(kind)
            self.frames.append((kind, flags, stream_id, window, payload if kind != DATA else length))
            if kind in STREAM_FRAMES:
                stream = self._stream(kind, flags, stream_id, window, payload)
                if stream is None:
                    return
            else:
                stream = None
                self._link_frame(kind, payload)
            self.handler(self, kind, stream, payload, window)
            self.changed.notify_all()
            if stream is not None:
                stream.changed.notify_all()

    def _order(self, kind):
        first = {"server of an agent": AGENT_HELLO, "agent": AGENT_METADATA_ACK}.get(self.role)
        if self.role == "server of a client" and self.hello:
            first = CLIENT_HELLO
        if first is not None and not self.frames:
            self.check(kind == first, f"the first frame is of type {kind}, not {first}")
        if kind in (AGENT_HELLO, CLIENT_HELLO):
            self.check(not self.frames, "a second hello")

    def _link_frame(self, kind, payload):
        if kind in (AGENT_HELLO, AGENT_METADATA_UPDATE, CLIENT_HELLO, CLIENT_METADATA_UPDATE):
            body = self._json(payload, HELLO_MEMBERS)
            self.check(body.get("revision", 0) > 0, "a revision of 0")
            for name in ("reported_at", "process_start_at"):
                self.check(GO_TIME.fullmatch(body.get(name, "0001-01-01T00:00:00Z")), f"{name} is no RFC 3339 time")
        elif kind == PING:
            if not self.pong_delay_s:
                return self.send(PONG, payload=payload)
            pong = threading.Timer(self.pong_delay_s, self.send, (PONG, 0, payload))
            pong.daemon = True
            pong.start()
        elif kind == GOAWAY:
            self.goaway = True

    def _json(self, payload, members):
        body = json.loads(payload)
        for name, value in body.items():
            want = members.get(name)
            self.check(want is None or (isinstance(value, want) and not (want is int and isinstance(value, bool))),
                       f"{name} is a {type(value).__name__}")
        return body

    def _stream(self, kind, flags, stream_id, window, payload):
        if kind == OPEN_STREAM:
            return self._opened(flags, stream_id, window, payload)
        stream = self.streams.get(stream_id)
        if not self.check(stream is not None, f"type {kind} for stream {stream_id}, which never was"):
            return None
        self.check(not stream.reset_in, f"type {kind} behind the RESET of stream {stream_id}")
        if stream.reset_out:  # it crossed our RESET
            stream.reset_in = stream.reset_in or kind == RESET
            if kind in ANSWERED_WITH_RESET.get(self.role, ()):
                self.send(RESET, stream_id, b"stream rejected")
            return None
        what = f"of stream {stream_id}"
        if kind in (DATA, HALF_CLOSE):
            self.check(not stream.ended_in, f"type {kind} behind the HALF_CLOSE {what}")
            self.check(stream.answer is not None and stream.answer["accepted"], f"type {kind} before the answer {what}")
        if kind == DATA:
            fits = len(payload) <= 65_536 if stream.is_udp else 0 < len(payload) <= CHUNK
            self.check(fits, f"{len(payload)} bytes of DATA {what}")
            stream.received += len(payload)
            if stream.windowed:
                stream.credit_in -= len(payload)
                self.check(stream.credit_in >= 0, f"{-stream.credit_in} bytes beyond the window {what}")
        elif kind == HALF_CLOSE:
            stream.ended_in = True
        elif kind == RESET:
            self.check(len(payload) <= 64 and payload.isascii(), f"RESET text {payload!r}")
            self.check(not (stream.ended_in and stream.ended_out), f"RESET behind both ends {what}")
            stream.reset_in = True
        elif kind == WINDOW_UPDATE:
            stream.granted_in += window
            self.check(window > 0, f"a WINDOW_UPDATE of 0 {what}")
            self.check(stream.windowed, f"WINDOW_UPDATE, but no windows {what}")
            self.check(stream.granted_in <= stream.sent,
                       f"credit for {stream.granted_in} of {stream.sent} bytes {what}")
            if stream.credit_out is not None:
                stream.credit_out += window
        elif kind == OPEN_RESULT:
            self.check(stream.strict, f"an OPEN_RESULT without STRICT_OPEN {what}")
            self.check(stream.answer is None, f"a second OPEN_RESULT {what}")
            stream.answer = self._result(payload)
            stream.reset_in = not stream.answer["accepted"]
        return stream

    def _opened(self, flags, stream_id, window, payload):
        self.check(stream_id == self.next_in, f"stream id {stream_id} after {self.next_in - 1}")
        self.next_in = stream_id + 1
        strict = bool(flags & STRICT)
        self.check(flags & ~STRICT == 0, f"flags {flags:#x} of an open")
        self.check(self.strict or not strict, "STRICT_OPEN, which was not negotiated")
        self.check(self.windows or window == 0, f"a window of {window}, but no windows")
        body = self._json(payload, OPEN_MEMBERS)
        self.check(set(body) <= set(OPEN_MEMBERS), f"members {set(body) - set(OPEN_MEMBERS)} in OPEN_STREAM")
        self.check(body.get("protocol") in ("tcp", "udp", "http"), f"protocol {body.get('protocol')}")
        self.check(bool(body.get("target_host")) and 0 < body.get("target_port", 0) < 65536, "no target")
        stream = Stream(self, stream_id, strict, window or None, WINDOW if window else None)
        stream.body, stream.window = body, window
        self.streams[stream_id] = stream
        return stream

    def _result(self, payload):
        result = json.loads(payload)
        self.check(set(result) <= {"accepted", "stage", "code", "retryable", "retry_after_ms"}
                   and result.get("stage") in STAGES and result.get("code") in CODES
                   and result.get("accepted") is (result.get("code") == "ok")
                   and isinstance(result.get("retryable", False), bool) and result.get("retry_after_ms", 0) >= 0,
                   f"result {result}")
        return result

    # --- life ---

    def check(self, condition, text):
        if not condition:
            self.fault(text)
        return bool(condition)

    def fault(self, text):
        with self.lock:
            self.faults.append(f"{self.version} {self.role}: {text}")

    def wait(self, condition, what, limit_s=WAIT_S):
        with self.lock:
            if not self.changed.wait_for(condition, limit_s):
                raise AssertionError(f"{self.version} {self.role}: waited {limit_s} s for {what}; {self.faults}")

    def count(self, kind):
        with self.lock:
            return sum(f[0] == kind for f in self.frames)

    def _end(self):
        with self.lock:
            if self.closed:
                return
            self.closed = True
            with contextlib.suppress(OSError):
                self.s.shutdown(socket.SHUT_RDWR)
            self.s.close()
            for stream in self.streams.values():
                stream.changed.notify_all()
            self.changed.notify_all()
        self.handler(self, None, None, b"", 0)

    def close(self):
        self.closing = True
        self._end()
        for thread in self.threads:
            if thread is not threading.current_thread() and thread.is_alive():
                thread.join(WAIT_S)
