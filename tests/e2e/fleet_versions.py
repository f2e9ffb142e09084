"""What each generation of the deployed programs knows, and what makes it drop a peer: data for
the scripted peers of fleet.py."""

import json
import re

from wire import (AGENT_HELLO, AGENT_METADATA_ACK, AGENT_METADATA_UPDATE, DATA, GOAWAY, HALF_CLOSE, OPEN_RESULT,
                  OPEN_STREAM, PING, PONG, RESET, WINDOW_UPDATE)

WINDOW = 262144
THRESHOLD = 131072
CHUNK = 32768
MESSAGE_MAX = 1 << 20
WAIT_S = 30.0
STAGES = {"authorization", "selection", "relay", "queue", "dns", "connect", "policy", "protocol"}
CODES = {"ok", "forbidden", "agent_offline", "queue_full", "timeout", "network_unreachable", "host_unreachable",
         "connection_refused", "unsupported_capability", "internal_error"}
STREAM_FRAMES = {OPEN_STREAM, DATA, HALF_CLOSE, RESET, WINDOW_UPDATE, OPEN_RESULT}
BOTH_WAYS = {DATA, HALF_CLOSE, RESET, WINDOW_UPDATE}
# What a link of ours may carry to each scripted role; three of the roles know more once negotiated.
KNOWN = {
    "client": BOTH_WAYS | {GOAWAY, PONG},
    "agent": BOTH_WAYS | {OPEN_STREAM, GOAWAY, PONG, AGENT_METADATA_ACK},
    "server of a client": BOTH_WAYS | {OPEN_STREAM, PING},
    "server of an agent": BOTH_WAYS | {PING, GOAWAY, AGENT_HELLO, AGENT_METADATA_UPDATE},
}
# Deployed programs answer these for a stream they do not have (any more): even a RESET (WIRE 1.11).
ANSWERED_WITH_RESET = {"server of a client": {DATA, HALF_CLOSE, RESET}, "agent": {DATA}}
LIMITS = {OPEN_RESULT: 1024, **{k: 32768 for k in (*range(9, 15), 16, 17, 18)}}
# Go's decoder fails on a member of another type, which ends the session of a V9 agent.
OPEN_MEMBERS = {"agent_id": str, "protocol": str, "target_host": str, "target_port": int, "target_scheme": str,
                "host_header": str, "tls_server_name": str, "metadata": str}
HELLO_MEMBERS = {"agent_id": str, "instance_id": str, "connection_id": str, "node_id": str, "epoch": int,
                 "revision": int, "reported_at": str, "items": list, "errors": list, "capabilities": list,
                 "connection_slot": int, "agent_ids": list, "version": str, "commit": str, "platform": str,
                 "hostname": str, "process_start_at": str, "listeners": list}
GO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
ORIGIN = re.compile(r"https?://[^/?#\s]+")


class Version:
    """What a generation of the deployed programs knows."""

    def __init__(self, number):
        self.number = number
        self.strict = number >= 9
        self.windows = number >= 9
        self.hello = number >= 11
        self.pools = number >= 10
        self.type_max = 14 if number < 9 else 15 if number < 11 else 18

    def __repr__(self):
        return f"V{self.number}"


V8, V9, V10, V11 = (Version(n) for n in (8, 9, 10, 11))


def go_json(value):
    """encoding/json: no spaces, and < > & escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()
