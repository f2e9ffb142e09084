"""The scripted peers themselves: each rule that makes a deployed program drop us is a fault."""

import json
import socket
import unittest

from fleet import Link
from fleet_versions import V8, V9, V11, WINDOW, go_json
from wire import (AGENT_HELLO, AGENT_METADATA_ACK, CLIENT_HELLO, DATA, GOAWAY, HALF_CLOSE, OPEN_RESULT, OPEN_STREAM,
                  PING, RESET, STRICT, WINDOW_UPDATE, encode_ws, frame, open_payload)

OPEN = open_payload("target.example", 80, "agent")
OK = b'{"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0}'
REFUSED = b'{"accepted":false,"stage":"connect","code":"timeout","retryable":true,"retry_after_ms":0}'
ACK = frame(AGENT_METADATA_ACK, payload=b"{}")


class Strict(unittest.TestCase):
    """Each test plays one of our programs badly, over a socket pair."""

    def link(self, role, version=V9, act=None, **more):
        near, self.far = socket.socketpair()
        self.addCleanup(self.far.close)
        self.heard = 0

        def handler(link, kind, stream, payload, window):
            self.heard += kind is not None
            if act and kind is not None:
                act(link, kind, stream)

        link = Link(near, b"", role, version, handler, **more).start()
        self.addCleanup(link.close)
        return link

    def faults(self, link, *messages, raw=False):
        masked = link.is_server
        data = b"".join(m if raw else encode_ws(2, m, masked=masked) for m in messages)
        self.far.sendall(data)
        self.far.shutdown(socket.SHUT_WR)
        link.wait(lambda: link.closed, "the end")
        return link.faults

    def is_fault(self, words, link, *messages, **more):
        faults = self.faults(link, *messages, **more)
        self.assertTrue(any(words in f for f in faults), (words, faults))

    def agent(self, version=V9, strict=True, act=None):
        return self.link("agent", version, act, strict=strict, windows=version.windows)

    def server(self, version=V9, act=None, **more):
        return self.link("server of a client", version, act, **{"strict": True, "windows": True, **more})

    def opened(self, window=WINDOW, strict=True, **answer):
        """An agent's link with stream 1, answered."""
        def act(link, kind, stream):
            if kind == OPEN_STREAM:
                link.answer(stream, {"accepted": True, "stage": "connect", "code": "ok", **answer})
        first = frame(OPEN_STREAM, 1, OPEN, STRICT if strict else 0, window)
        return self.agent(act=act if strict else None), [ACK, first]

    def test_what_is_right_is_no_fault(self):
        link, begin = self.opened()
        self.assertEqual(self.faults(link, *begin, frame(DATA, 1, b"x"), frame(HALF_CLOSE, 1)), [])
        self.assertEqual(self.heard, 4)

    def test_fragments(self):
        link = self.agent()
        self.is_fault("fragments", link, encode_ws(2, ACK[:5], fin=False, masked=False),
                      encode_ws(0, ACK[5:], masked=False), raw=True)

    def test_masking_and_opcode(self):
        self.is_fault("masking", self.agent(), encode_ws(2, ACK), raw=True)
        self.is_fault("opcode 1", self.agent(), encode_ws(1, ACK, masked=False), raw=True)
        self.is_fault("reserved", self.agent(), encode_ws(2, ACK, masked=False, rsv=4), raw=True)

    def test_message_beyond_an_agents_limit(self):
        link, begin = self.opened(window=1 << 31)
        self.is_fault("a message of 1048577 bytes", link, *begin, frame(DATA, 1, b"x" * (1048576 - 15)))

    def test_trailing_bytes(self):
        self.is_fault("bytes follow", self.agent(), ACK + b"x")

    def test_types_a_version_does_not_know(self):
        self.is_fault("type 15", self.link("client", V8), frame(OPEN_RESULT, 1, OK))
        self.is_fault("type 18", self.link("client", V9, strict=True, windows=True), frame(18, payload=b"{}"))
        self.is_fault("type 16", self.server(), frame(CLIENT_HELLO, payload=go_json({"revision": 1})))
        self.is_fault("type 15", self.link("server of an agent", V8),
                      frame(AGENT_HELLO, payload=go_json({"revision": 1})), frame(OPEN_RESULT, 1, OK))
        self.is_fault("type 6", self.server(), frame(GOAWAY))

    def test_strict_open_that_was_not_negotiated(self):
        self.is_fault("STRICT_OPEN", self.agent(V8, strict=False), ACK, frame(OPEN_STREAM, 1, OPEN, STRICT))
        self.is_fault("STRICT_OPEN", self.server(strict=False), frame(OPEN_STREAM, 1, OPEN, STRICT, WINDOW))

    def test_window_without_windows(self):
        self.is_fault("no windows", self.agent(V8, strict=False), ACK, frame(OPEN_STREAM, 1, OPEN, 0, WINDOW))
        link, begin = self.opened(window=0, strict=False)
        self.is_fault("no windows", link, *begin, frame(WINDOW_UPDATE, 1, window=1))

    def test_early_data(self):
        self.is_fault("before the answer", self.agent(), ACK, frame(OPEN_STREAM, 1, OPEN, STRICT, WINDOW),
                      frame(DATA, 1, b"early"))

    def test_data_beyond_the_window(self):
        link, begin = self.opened()
        self.is_fault("beyond the window", link, *begin, *[frame(DATA, 1, b"x" * 32768)] * 8, frame(DATA, 1, b"x"))

    def test_large_data(self):
        link, begin = self.opened()
        self.is_fault("32769 bytes", link, *begin, frame(DATA, 1, b"x" * 32769))

    def test_credit_for_bytes_that_were_never_sent(self):
        link, begin = self.opened()
        self.is_fault("credit for 1 of 0", link, *begin, frame(WINDOW_UPDATE, 1, window=1))

    def test_window_update_of_zero(self):
        link, begin = self.opened()
        self.is_fault("WINDOW_UPDATE of 0", link, *begin, frame(WINDOW_UPDATE, 1))

    def test_order_of_the_first_frames(self):
        self.is_fault("the first frame", self.agent(), frame(OPEN_STREAM, 1, OPEN, 0, WINDOW))
        self.is_fault("the first frame", self.server(V11, hello=True), frame(OPEN_STREAM, 1, OPEN, STRICT, WINDOW))
        self.is_fault("the first frame", self.link("server of an agent"), frame(PING))

    def test_ids(self):
        self.is_fault("stream id 2 after 0", self.agent(), ACK, frame(OPEN_STREAM, 2, OPEN, 0, WINDOW))
        link, begin = self.opened()
        self.is_fault("never was", link, *begin, frame(RESET, 7))

    def test_frames_behind_an_end(self):
        link, begin = self.opened()
        self.is_fault("behind the HALF_CLOSE", link, *begin, frame(HALF_CLOSE, 1), frame(DATA, 1, b"x"))
        link, begin = self.opened()
        self.is_fault("behind the RESET", link, *begin, frame(RESET, 1), frame(RESET, 1))

    def test_reset_answered_with_reset(self):
        def act(link, kind, stream):
            if kind == DATA:
                link.reset(stream)
        link = self.link("server of a client", V9, act, strict=True, windows=True)
        self.is_fault("behind the RESET", link, frame(OPEN_STREAM, 1, OPEN, 0, WINDOW), frame(DATA, 1, b"x"),
                      frame(RESET, 1), frame(RESET, 1))

    def test_open_payloads_that_go_cannot_read(self):
        for member, value in (("target_port", "80"), ("target_port", 0), ("target_host", ""), ("protocol", "ws"),
                              ("relay", {})):
            body = json.dumps({**json.loads(OPEN), member: value}).encode()
            self.assertTrue(self.faults(self.agent(), ACK, frame(OPEN_STREAM, 1, body, 0, WINDOW)), (member, value))

    def test_results_outside_the_enums(self):
        for change in ({"stage": "moon"}, {"code": "eclipse"}, {"accepted": False}, {"message": "text"},
                       {"retry_after_ms": -1}):
            link = self.link("client", V9, strict=True, windows=True)
            link.open(OPEN, True, WINDOW)
            body = json.dumps({**json.loads(OK), **change}).encode()
            self.assertTrue(self.faults(link, frame(OPEN_RESULT, 1, body)), change)

    def test_second_result_and_one_nobody_wants(self):
        link = self.link("client", V9, strict=True, windows=True)
        link.open(OPEN, True, WINDOW)
        self.is_fault("second OPEN_RESULT", link, frame(OPEN_RESULT, 1, OK), frame(OPEN_RESULT, 1, OK))
        link = self.link("client", V9, strict=True, windows=True)
        link.open(OPEN, False, WINDOW)
        self.is_fault("without STRICT_OPEN", link, frame(OPEN_RESULT, 1, REFUSED))

    def test_times(self):
        hello = {"revision": 1, "reported_at": "yesterday"}
        self.is_fault("RFC 3339", self.link("server of an agent"), frame(AGENT_HELLO, payload=go_json(hello)))


if __name__ == "__main__":
    unittest.main()
