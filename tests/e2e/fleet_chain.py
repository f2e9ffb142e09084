"""Client, server, agent: each ours (a real program) or a scripted one of a deployed version."""

import contextlib
import re
import socket

from fleet_agent import FleetAgent
from fleet_client import FleetClient, Refused
from fleet_server import FleetServer
from harness import EchoTarget, Mesh, SocksRefused, receive_exactly, socks_connect, wait_until

OURS = None


def yaml_value(text, key):
    return re.search(rf"^\s*{key}:\s*[\"']?([^\"'\s]+)", text, re.M).group(1)


class SocksFlow:
    """A stream through our client, with the face of fleet_client.Flow."""

    def __init__(self, s):
        self.s = s

    def sendall(self, data):
        self.s.sendall(data)

    def recv(self, n):
        return self.s.recv(n)

    def receive_exactly(self, n):
        return receive_exactly(self.s, n)

    def read_to_end(self):
        data = bytearray()
        while piece := self.s.recv(1 << 20):
            data += piece
        return bytes(data)

    def finish(self):
        self.s.shutdown(socket.SHUT_WR)

    def close(self):
        self.s.close()

    def abort(self):
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.s.close()


class Chain:
    """Up and proven with one echo. edit(mesh) may change the configuration first; the options
    are those of the scripted ends."""

    def __init__(self, client=OURS, server=OURS, agent=OURS, edit=None, echo=True, ready=True, server_options=None,
                 agent_options=None):
        self.versions = client, server, agent
        self.server_options, self.agent_options, self.ready = server_options or {}, agent_options or {}, ready
        self.scripted, self.server, self.agent, self.client = [], None, None, None
        self.mesh = Mesh(start=(), edit=edit)
        self.echo_target = EchoTarget()
        try:
            self.client_token = yaml_value(self.mesh.read("client"), "token")
            self.agent_token = yaml_value(self.mesh.read("agent"), "token")
            self.agent_id = yaml_value(self.mesh.read("agent"), "id")
            self.port = self.mesh.http_port
            self.start_server()
            self.start_agent()
            self.start_client()
            if echo:
                wait_until(self.echoes, f"the first stream through {self}")
        except BaseException as error:
            print(self.mesh.logs(), self.faults())
            with contextlib.suppress(AssertionError):
                self.close()
            raise error

    def __str__(self):
        return "-".join("ours" if v is OURS else str(v) for v in self.versions)

    def start_server(self):
        if self.versions[1] is OURS:
            self.mesh.start("server")
        else:
            self.server = FleetServer(self.versions[1], self.port, **self.server_options)

    def start_agent(self):
        if self.versions[2] is OURS:
            self.mesh.start("agent")
        else:
            # An old server opens without a window whatever the agent could.
            old = any(v is not OURS and not v.windows for v in self.versions[:2]) and self.server is not None
            options = {"expect_windows": not old, **self.agent_options}
            self.agent = FleetAgent(self.versions[2], self.port, self.agent_token, self.agent_id, **options)
            self.scripted.append(self.agent.link)
        if self.server:
            self.server.wait_ready(client=False)

    def start_client(self):
        if self.versions[0] is OURS:
            self.mesh.start("client")
        else:
            self.client = FleetClient(self.versions[0], self.port, self.client_token, self.agent_id)
            self.scripted.append(self.client.link)
        if self.server and self.ready:
            self.server.wait_ready(agent=False)

    def connect(self, port, host="127.0.0.1"):
        """A stream, or Refused, or SocksRefused."""
        if self.client:
            return self.client.connect(host, port)
        return SocksFlow(socks_connect(self.mesh.socks_port, host, port))

    def echoes(self):
        """Whether a stream echoes; false as long as a link is missing."""
        for name, program in self.mesh.programs.items():
            assert program.alive(), f"{name} ended"
        assert not any(link.closed and not link.closing for link in self.scripted), "a scripted link ended"
        with contextlib.suppress(SocksRefused, Refused, ConnectionError, OSError):
            self.echo()
            return True
        return False

    def echo(self, data=b"echo"):
        flow = self.connect(self.echo_target.port)
        try:
            flow.sendall(data)
            got = flow.receive_exactly(len(data))
            assert got == data, f"{len(got)} other bytes came back"
        finally:
            flow.close()

    def faults(self):
        """Of links that have one of our programs at the other end; what two scripts do is their business."""
        if not self.server:
            return [f for link in self.scripted for f in link.faults]
        client, _, agent = self.versions
        ours = {"server of a client": client is OURS, "server of an agent": agent is OURS}
        with self.server.lock:
            return self.server.faults + [f for link in self.server.links if ours[link.role] for f in link.faults]

    def check(self, echo=True):
        """Everything works still, and nobody was told what his version does not know."""
        if echo:
            self.echo()
        if self.agent and not self.agent.link.closed:
            self.agent.ping()
        if self.client and self.client.version.pools and self.client.windows:
            self.client.ping()
        faults = self.faults()
        ended = [link.role for link in self.scripted if link.closed and not link.closing]
        assert not faults and not ended, f"{self}: faults {faults}, ended {ended}\n{self.mesh.logs()[-4000:]}"

    def close(self):
        # Scripts first: nothing keeps our programs from draining at once.
        for end in (self.client, self.agent, self.server):
            if end:
                end.close()
        self.echo_target.close()
        self.mesh.close()
