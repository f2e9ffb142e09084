"""A DNS server for the bench: answers every A question with 127.0.0.1, after a delay."""

import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time


def available():
    """Whether an agent can get a resolv.conf of its own, and a server port 53."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def answer(question):
    """The reply to one query, or None for what is none."""
    if len(question) < 17 or question[2] & 0x80:
        return None
    end = 12
    while end < len(question) and question[end] != 0:
        end += question[end] + 1
    if end + 5 > len(question):
        return None
    kind = struct.unpack(">H", question[end + 1:end + 3])[0]
    has_answer = kind == 1
    head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, int(has_answer), 0, 0)
    body = question[12:end + 5]
    if has_answer:
        body += struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton("127.0.0.1")
    return head + body


class SlowDns:
    def __init__(self, delay_s):
        self.delay_s = delay_s
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        # resolv.conf has no ports, so the address is what must be free.
        for attempt in range(50):
            self.address = f"127.{random.randint(64, 254)}.{random.randint(1, 254)}.1"
            try:
                self.socket.bind((self.address, 53))
                break
            except OSError:
                if attempt == 49:
                    raise
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        due = []
        while not self.stopping.is_set():
            wait = min(0.2, max(0.0, due[0][0] - time.monotonic())) if due else 0.2
            if select.select([self.socket], [], [], wait)[0]:
                for _ in range(64):
                    try:
                        question, source = self.socket.recvfrom(4096)
                    except BlockingIOError:
                        break
                    reply = answer(question)
                    if reply:
                        heapq.heappush(due, (time.monotonic() + self.delay_s, reply, source))
            while due and due[0][0] <= time.monotonic():
                _, reply, source = heapq.heappop(due)
                self.socket.sendto(reply, source)

    def close(self):
        self.stopping.set()
        self.thread.join()
        self.socket.close()
