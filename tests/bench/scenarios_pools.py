"""Scenarios about the client's entries and links: early data over a distance, and a link that stalls."""

import contextlib
import os
import signal
import socket
import time

import harness
import relay
import rig
from report import median, spread
from scenarios_flow import through_delay

ROUND_TRIP_S = 0.050
OPENS = 20


class HttpTarget(harness.Target):
    """Answers every request at once and ends."""

    def handle(self, s):
        request = b""
        while b"\r\n\r\n" not in request:
            piece = s.recv(65536)
            if not piece:
                return
            request += piece
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def first_byte_s(port, request):
    """From before connect() to the first byte of the answer."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(request)
        if not s.recv(1):
            raise RuntimeError("no answer")
        return time.monotonic() - began


def early_scenario(run):
    """50 ms round trip: first byte on entries that have the request in hand"""
    with rig.Bed() as bed:
        target = HttpTarget()
        bed.stack.callback(target.close)
        place = f"127.0.0.1:{target.port}"
        to_target = {"target_host": "127.0.0.1", "target_port": target.port}
        mesh = through_delay(bed, ROUND_TRIP_S / 2 * 1e3, tunnels=[
            {"protocol": "tcp", **to_target}, {"protocol": "http", **to_target}, {"protocol": "http-proxy"}])
        fields = b"\r\nConnection: close\r\n\r\n"
        requests = {
            "tcp": b"GET / HTTP/1.1\r\nHost: t" + fields,
            "http": b"GET / HTTP/1.1\r\nHost: localhost" + fields,
            "http-proxy": f"GET http://{place}/ HTTP/1.1\r\nHost: {place}".encode() + fields,
        }
        got = run.interleaved({
            name: lambda n=name, r=request: median([first_byte_s(mesh.ports[n], r) for _ in range(OPENS)])
            for name, request in requests.items()})
        for name, label in (("tcp", "tcp"), ("http", "http"), ("http-proxy", "http-proxy, absolute-form")):
            run.row("early", f"first byte, entry {label}, in round trips (median)", median(got[name]) / ROUND_TRIP_S,
                    "", at_least=1.0, at_most=1.1, detail=f"{spread([x * 1e3 for x in got[name]])} ms")


def hedge_scenario(run):
    """one of two links of a client is frozen: opens that meet it"""
    def edit(mesh):
        mesh.relay = relay.Relay(mesh.http_port)
        mesh.rewrite("client", lambda text: text.replace(f":{mesh.http_port}", f":{mesh.relay.port}"))

    settings = {"client": {"client.connections.min": 2, "client.connections.max": 2}}
    with rig.Bed() as bed:
        target = harness.EchoTarget()
        bed.stack.callback(target.close)
        mesh = bed.mesh(settings, edit=edit)
        bed.stack.callback(mesh.relay.close)
        held = contextlib.ExitStack()
        bed.stack.push(held)

        def one_open():
            began = time.monotonic()
            held.enter_context(harness.socks_connect(mesh.socks_port, "127.0.0.1", target.port))
            return time.monotonic() - began

        def calm():
            times = [one_open() for _ in range(OPENS)]
            held.close()
            return max(times)

        def frozen():
            one = mesh.relay.connections()[0]
            os.kill(one, signal.SIGSTOP)
            try:
                times = [one_open() for _ in range(OPENS)]
            finally:
                os.kill(one, signal.SIGCONT)
            held.close()
            time.sleep(1)  # what the frozen link held arrives, and it is like new
            return max(times)

        got = run.interleaved({"calm": calm, "frozen": frozen})
        run.row("hedge", f"slowest of {OPENS} opens while one of two links is frozen", median(got["frozen"]) * 1e3,
                " ms", at_most=500, detail=f"{spread([x * 1e3 for x in got['frozen']])}; with both alive "
                                    f"{median(got['calm']) * 1e3:.2f} ms; a link is given up after 7 s")


SCENARIOS = {"early": early_scenario, "hedge": hedge_scenario}
