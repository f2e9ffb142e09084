"""A TCP relay of its own process, with one child per connection, so that a test can stop
one connection (SIGSTOP) as a silent loss of the path would: the kernels go on
acknowledging, and nothing comes through. Optionally slow: bytes per second and direction,
with a queue in front of it.

    relay.py DEST_PORT [BYTES_PER_S [QUEUE_BYTES]]    prints its port
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time

PIECE = 4096


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(child) for child in f.read().split()]


class Relay:
    """The relay as its user sees it."""

    def __init__(self, dest_port, bytes_per_s=0, queue_bytes=65536):
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, str(dest_port), str(bytes_per_s), str(queue_bytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def connections(self):
        return children_of(self.process.pid)

    def stop_connections(self):
        """Those there are now; later ones live."""
        stopped = self.connections()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        return stopped

    def close(self):
        for pid in self.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()


class Pipe:
    """One direction."""

    def __init__(self, source, sink, bytes_per_s, queue_bytes):
        self.source, self.sink, self.rate, self.limit = source, sink, bytes_per_s, queue_bytes
        self.queue = bytearray()
        self.is_ended = False
        self.is_over = False
        self.due = time.monotonic()

    def wants_read(self):
        return not self.is_ended and len(self.queue) < self.limit

    def wants_write(self, now):
        return not self.is_over and (len(self.queue) > 0 or self.is_ended) and now >= self.due

    def read(self):
        data = self.source.recv(self.limit - len(self.queue))
        self.queue += data
        self.is_ended = not data

    def write(self, now):
        if self.queue:
            n = self.sink.send(self.queue[:PIECE if self.rate else 65536])
            del self.queue[:n]
            if self.rate:
                self.due = max(self.due, now - 0.05) + n / self.rate
        elif self.is_ended:
            self.is_over = True
            self.sink.shutdown(socket.SHUT_WR)


def pump(near, far, bytes_per_s, queue_bytes):
    pipes = [Pipe(near, far, bytes_per_s, queue_bytes), Pipe(far, near, bytes_per_s, queue_bytes)]
    while not all(p.is_over for p in pipes):
        now = time.monotonic()
        readers = {p.source: p for p in pipes if p.wants_read()}
        writers = {p.sink: p for p in pipes if p.wants_write(now)}
        waits = [p.due - now for p in pipes if p.due > now and (p.queue or p.is_ended) and not p.is_over]
        readable, writable, _ = select.select(list(readers), list(writers), [], min(waits) if waits else None)
        for s in readable:
            readers[s].read()
        for s in writable:
            writers[s].write(time.monotonic())


def main():
    dest_port, bytes_per_s, queue_bytes = (int(x) for x in sys.argv[1:4])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    # The end of the input is the end of the test, whether it closed the relay or not.
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        near, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            far = socket.socket()
            if bytes_per_s:
                # What the kernels hold would hide the rate.
                for s in (near, far):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
            with contextlib.suppress(OSError):
                far.connect(("127.0.0.1", dest_port))
                for s in (near, far):
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pump(near, far, bytes_per_s, queue_bytes)
            os._exit(0)
        near.close()
    for pid in children_of(os.getpid()):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
