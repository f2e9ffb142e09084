"""Debian's own ways to the same end, on the same loads in the same run."""

import getpass
import os
import shutil
import subprocess
import tempfile

import harness
import rig
from report import median
from scenarios_flow import bulk, rates, use_tls
from scenarios_open import errors, opens, p95

SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
               "LogLevel=ERROR")
PASSWORD = "bench"
CIPHER = "chacha20-ietf-poly1305"


def find(program):
    """Its path; the system folders are not on everybody's PATH."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Peer:
    """Some processes that end with the bed, and the SOCKS5 port they offer."""

    is_encrypted = True
    needs = ()

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tmesh-bench-")
        self.processes = []
        self.socks_port = harness.free_port()

    @classmethod
    def missing(cls):
        return [name for name in cls.needs if find(name) is None]

    def start(self, program, *arguments):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.processes.append(subprocess.Popen([find(program), *arguments], stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=log))

    def text(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-500:]

    def wait(self, port):
        def ready():
            if any(p.poll() is not None for p in self.processes):
                raise RuntimeError(f"{type(self).__name__} ended: {self.text()}")
            return harness.can_connect(port)

        harness.wait_until(ready, f"{type(self).__name__} on its port")

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Microsocks(Peer):
    """microsocks: one process, nothing encrypted"""

    is_encrypted = False
    needs = ("microsocks",)

    def run(self):
        self.start("microsocks", "-i", "127.0.0.1", "-p", str(self.socks_port))
        self.wait(self.socks_port)


class Shadowsocks(Peer):
    """shadowsocks-libev: ss-local and ss-server, ChaCha20-Poly1305"""

    needs = ("ss-local", "ss-server")

    def run(self):
        port = harness.free_port()
        common = ("-s", "127.0.0.1", "-p", str(port), "-k", PASSWORD, "-m", CIPHER)
        self.start("ss-server", *common)
        self.wait(port)
        self.start("ss-local", *common, "-b", "127.0.0.1", "-l", str(self.socks_port))
        self.wait(self.socks_port)


class Ssh(Peer):
    """ssh -D with an sshd of its own"""

    needs = ("ssh", "sshd", "ssh-keygen")

    def run(self):
        port = harness.free_port()
        for name in ("host", "user"):
            subprocess.run([find("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)], check=True)
        shutil.copy(self.path("user.pub"), self.path("authorized"))
        with open(self.path("sshd_config"), "w", encoding="ascii") as f:
            f.write(f"ListenAddress 127.0.0.1:{port}\nHostKey {self.path('host')}\nPidFile none\nUsePAM no\n"
                    f"AuthorizedKeysFile {self.path('authorized')}\nStrictModes no\nPasswordAuthentication no\n"
                    "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # sshd insists on it, and its service made it
        self.start("sshd", "-D", "-e", "-f", self.path("sshd_config"))
        self.wait(port)
        self.start("ssh", "-F", "none", "-N", *SSH_OPTIONS, "-o", "IdentitiesOnly=yes", "-i", self.path("user"), "-D",
                   f"127.0.0.1:{self.socks_port}", "-p", str(port), f"{getpass.getuser()}@127.0.0.1")
        self.wait(self.socks_port)

    def path(self, name):
        return os.path.join(self.folder, name)


def compare(run, target, mesh, peer, what):
    """The loads of the other scenarios, ours / theirs."""
    for concurrency in (32, 256):
        count = run.count(4000)
        got = run.interleaved({
            "ours": lambda c=concurrency, n=count: opens(target.port, c, n, mesh.socks_port),
            "peer": lambda c=concurrency, n=count: opens(target.port, c, n, peer.socks_port)})
        ours, theirs = median(p95(got["ours"])), median(p95(got["peer"]))
        run.row("peers", f"first byte p95, {concurrency} opens at once, ours / {what}", ours / theirs, "x",
                detail=f"{ours:.2f} / {theirs:.2f} ms; failed {errors(got['ours'])} / {errors(got['peer'])}")
    for streams in (1, 8):
        got = run.interleaved({
            "ours": lambda n=streams: bulk(run, target.port, n, proxy=mesh.socks_port, pids=mesh.pids),
            "peer": lambda n=streams: bulk(run, target.port, n, proxy=peer.socks_port)})
        ours, theirs = median(rates(got["ours"])), median(rates(got["peer"]))
        run.row("peers", f"{streams} stream{'s' * (streams > 1)}, ours / {what}", ours / theirs, "x",
                detail=f"{ours:.0f} / {theirs:.0f} MiB/s")

    def mix(port, bulk_streams):
        return rig.tool_json("load", "mix", "--target", target.port, "--proxy", port, "--small", 31, "--bulk",
                             bulk_streams, "--seconds", run.seconds, "--pause-ms", 100)[0]

    got = run.interleaved({(who, n): lambda p=port, n=n: mix(p, n) for n in (0, 1) for who, port in (
        ("ours", mesh.socks_port), ("peer", peer.socks_port))})
    value = {key: median(p95(results)) for key, results in got.items()}
    moved = {who: median([r["bulk_mib_s"] for r in got[who, 1]]) for who in ("ours", "peer")}
    run.row("peers", f"small flows (paced) beside a bulk stream, p95, ours / {what}",
            value["ours", 1] / value["peer", 1], "x",
            detail=f"{value['ours', 1]:.2f} / {value['peer', 1]:.2f} ms; with / without bulk "
                   f"{value['ours', 1] / value['ours', 0]:.2f}x / {value['peer', 1] / value['peer', 0]:.2f}x; bulk "
                   f"{moved['ours']:.0f} / {moved['peer']:.0f} MiB/s")


def peers_scenario(run):
    """microsocks, shadowsocks-libev and ssh -D on the same loads; ours with TLS where they encrypt"""
    with rig.Bed() as bed:
        target = bed.tool("target")
        meshes = {}
        for kind, what in ((Microsocks, "microsocks"), (Shadowsocks, "shadowsocks-libev"), (Ssh, "ssh -D")):
            if kind.missing():
                run.row("peers", f"the same loads, ours / {what}",
                        deferred=f"not installed: {', '.join(kind.missing())}")
                continue
            if kind.is_encrypted not in meshes:
                meshes[kind.is_encrypted] = bed.mesh(edit=use_tls if kind.is_encrypted else None)
                opens(target.port, 16, 300, meshes[kind.is_encrypted].socks_port)
            peer = kind()
            try:
                peer.run()
                compare(run, target, meshes[kind.is_encrypted], peer,
                        f"{what}{' (ours with TLS)' if kind.is_encrypted else ''}")
            finally:
                peer.close()


SCENARIOS = {"peers": peers_scenario}
