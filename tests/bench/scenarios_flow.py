"""Scenarios about bytes: throughput, fairness, small flows beside bulk, long lines."""

import contextlib
import fcntl
import os
import socket
import struct
import termios
import time

import rig
from report import median, spread
from scenarios_open import BASELINE, errors, opens, p95
from test_tls import use_tls  # of the end-to-end tests: a CA and certificates for both links

MAX_WINDOW_MIB = 16  # limits.max_window


def bulk(run, target, streams, proxy=0, pids=(), upload=False, warm_s=0.5, may_lose=False):
    """One bulk load, with what the processes named used per GiB. may_lose: streams without
    flow control are reset where a queue overflows; the result says so."""
    load = rig.Load("bulk", "--target", target, "--proxy", proxy, "--streams", streams, "--seconds", run.seconds,
                    "--warm-s", warm_s, "--up", int(upload))
    try:
        load.next()
        before = rig.cpu_s(pids)
        result = load.next()
        used = rig.cpu_s(pids) - before
    finally:
        load.close()
    is_whole = result["streams"] == streams and not result["errors"] and result["bytes"] > 0
    if not is_whole and not may_lose:
        raise RuntimeError(f"bulk lost streams: {result}")
    result["processes_cpu_s_per_gib"] = used / (max(1, result["bytes"]) / rig.GIB)
    rig.settle(pids)
    return result


def rates(results):
    return [r["mib_s"] for r in results]


def costs(results):
    return [r["processes_cpu_s_per_gib"] for r in results]


def bulk_scenario(run):
    """1 and 8 streams, plain, beside a bare three-process relay chain"""
    with rig.Bed() as bed:
        target = bed.tool("target")
        mesh, legacy = bed.mesh(), bed.mesh(BASELINE)
        chain_port, chain_pids = bed.chain(target.port)
        for streams in (1, 8):
            got = run.interleaved({
                "ours": lambda n=streams: bulk(run, target.port, n, proxy=mesh.socks_port, pids=mesh.pids),
                "chain": lambda n=streams: bulk(run, chain_port, n, pids=chain_pids),
                "legacy": lambda n=streams: bulk(run, target.port, n, proxy=legacy.socks_port, pids=legacy.pids,
                                                may_lose=True),
                "direct": lambda n=streams: bulk(run, target.port, n)})
            name = f"{streams} stream{'s' * (streams > 1)}"
            ours, chain, direct = (rates(got[x]) for x in ("ours", "chain", "direct"))
            run.row("bulk", f"{name}, plain, ours / bare chain", median(ours) / median(chain), "x", at_least=0.8,
                    detail=f"{median(ours):.0f} / {median(chain):.0f} MiB/s ({spread(ours)} / {spread(chain)}), "
                           f"direct {median(direct):.0f}, baseline mode {median(rates(got['legacy'])):.0f} "
                           f"({sum(bool(r['errors']) for r in got['legacy'])} of {run.repeats} lost streams)")
            run.row("bulk", f"CPU per GiB, three processes, {name}, ours / bare chain",
                    median(costs(got["ours"])) / median(costs(got["chain"])), "x", at_most=1.4,
                    detail=f"{median(costs(got['ours'])):.2f} / {median(costs(got['chain'])):.2f} s/GiB")
            if streams > 1:
                share = [r["worst_share"] * 100 for r in got["ours"]]
                theirs = median([r["worst_share"] * 100 for r in got["chain"]])
                run.row("bulk", f"fairness: the stream farthest from the mean of {streams}", median(share), " %",
                        at_most=5, detail=f"{spread(share)}; chain {theirs:.1f} %")
        got = run.interleaved({
            "ours": lambda: bulk(run, target.port, 1, proxy=mesh.socks_port, pids=mesh.pids, upload=True),
            "chain": lambda: bulk(run, chain_port, 1, pids=chain_pids, upload=True)})
        ours, chain = median(rates(got["ours"])), median(rates(got["chain"]))
        run.row("bulk", "1 stream, upload, ours / bare chain", ours / chain, "x",
                detail=f"{ours:.0f} / {chain:.0f} MiB/s")


def mix_scenario(run):
    """31 small flows: alone, beside a bulk stream, beside a reader that never reads"""
    with rig.Bed() as bed:
        target = bed.tool("target")
        mesh, legacy = bed.mesh(), bed.mesh(BASELINE)
        chain_port, _ = bed.chain(target.port)
        # Closed loop: as fast as they can, so both cores are full with or without bulk.
        # Paced: what people do; here the ratio shows queueing alone.
        for name, pause_ms in (("closed loop", 0), ("paced, one each 100 ms", 100)):
            def mix(proxy, port, streams=0, stalled=0, pause_ms=pause_ms):
                result = rig.tool_json(
                    "load", "mix", "--target", port, "--proxy", proxy, "--small", 31, "--bulk", streams, "--stalled",
                    stalled, "--seconds", run.seconds, "--pause-ms", pause_ms)[0]
                rig.settle(mesh.pids + legacy.pids)
                return result

            routes = {"ours": (mesh.socks_port, target.port), "legacy": (legacy.socks_port, target.port),
                      "chain": (0, chain_port), "direct": (0, target.port)}
            got = run.interleaved({
                "stalled": lambda m=mix, r=routes["ours"]: m(*r, stalled=1),
                **{f"{who}{' bulk' * n}": lambda m=mix, r=r, n=n: m(*r, streams=n)
                   for who, r in routes.items() for n in (0, 1)}})
            value = {key: median(p95(results)) for key, results in got.items()}
            others = ", ".join(f"{what} {value[who + ' bulk'] / value[who]:.2f}x" for who, what in (
                ("chain", "bare chain"), ("direct", "direct"), ("legacy", "baseline mode")))
            others += f" ({errors(got['legacy bulk'])} failed)"
            run.row("mix", f"small-flow p95 with bulk / alone ({name})", value["ours bulk"] / value["ours"], "x",
                    at_most=1.2,
                    detail=f"{value['ours bulk']:.2f} / {value['ours']:.2f} ms, bulk "
                           f"{median([r['bulk_mib_s'] for r in got['ours bulk']]):.0f} MiB/s, "
                           f"{errors(got['ours bulk'])} failed; slowest "
                           f"{max(r['first_byte_ms']['max'] for r in got['ours bulk']):.1f} ms; {others}")
            run.row("mix", f"small-flow p95 with a stalled reader / alone ({name})", value["stalled"] / value["ours"],
                    "x", at_most=1.1,
                    detail=f"{value['stalled']:.2f} / {value['ours']:.2f} ms, {errors(got['stalled'])} failed")


def tls_scenario(run):
    """1 and 8 streams with TLS on both links, beside what the TLS library alone does per core"""
    with rig.Bed() as bed:
        target = bed.tool("target")
        mesh = bed.mesh(edit=use_tls)
        pki = os.path.join(mesh.folder, "pki")

        def library():
            return rig.tool_json("tls", "--cert", f"{pki}/server.pem", "--key", f"{pki}/server-key.pem", "--ca",
                                 f"{pki}/ca.pem", "--seconds", min(2.0, run.seconds))[0]

        for streams in (1, 8):
            got = run.interleaved({"library": library, "ours": lambda n=streams: bulk(
                run, target.port, n, proxy=mesh.socks_port, pids=mesh.pids)})
            ours, alone = rates(got["ours"]), rates(got["library"])
            run.row("tls", f"{streams} stream{'s' * (streams > 1)}, TLS on both links / library alone on one core",
                    median(ours) / median(alone), "x", at_least=0.8,
                    detail=f"{median(ours):.0f} / {median(alone):.0f} MiB/s ({spread(ours)} / {spread(alone)}); CPU "
                           f"{median(costs(got['ours'])):.2f} s/GiB in three processes, library "
                           f"{median([r['cpu_s_per_gib'] for r in got['library']]):.2f} for each of two hops")


def through_delay(bed, one_way_ms, *options, **mesh_options):
    """A mesh whose client reaches the server over a line with that delay."""
    def edit(mesh):
        line = bed.tool("delay", "--to", mesh.http_port, "--ms", one_way_ms, *options)
        mesh.rewrite("client", lambda text: text.replace(f"127.0.0.1:{mesh.http_port}", f"127.0.0.1:{line.port}"))

    return bed.mesh(edit=edit, **mesh_options)


def rtt_scenario(run):
    """50 ms round trip between client and server: one stream, and the first byte"""
    rtt_s = 0.050
    with rig.Bed() as bed:
        target = bed.tool("target")
        near, relayed, far = bed.mesh(), through_delay(bed, 0), through_delay(bed, rtt_s / 2 * 1e3)

        def one(mesh):
            return bulk(run, target.port, 1, proxy=mesh.socks_port, pids=mesh.pids, warm_s=1.5)

        got = run.interleaved({"near": lambda: one(near), "relayed": lambda: one(relayed), "far": lambda: one(far)})
        ours, plain = median(rates(got["far"])), median(rates(got["near"]))
        window_mib_s = MAX_WINDOW_MIB / rtt_s
        run.row("rtt", "one stream at 50 ms / min(undelayed, max_window / RTT)", ours / min(plain, window_mib_s), "x",
                at_least=0.9,
                detail=f"{ours:.0f} MiB/s ({spread(rates(got['far']))}); undelayed {plain:.0f}, through the same relay "
                       f"without delay {median(rates(got['relayed'])):.0f}, max_window / RTT {window_mib_s:.0f}")
        first = [opens(target.port, 1, 20, far.socks_port) for _ in range(run.repeats)]
        run.row("rtt", "first byte, strict, in round trips (median)",
                median([r["first_byte_ms"]["p50"] for r in first]) / (rtt_s * 1e3), "", at_least=2.0, at_most=2.1,
                detail=f"p95 {median(p95(first)):.1f} ms; SOCKS5 reply p50 "
                       f"{median([r['reply_ms']['p50'] for r in first]):.1f} ms")


def line_holds_bytes(bed, options, seconds=4.0):
    """What a line keeps under way between a sender that never stops and a reader: its own part
    of any wait. What the sender's kernel still has is not counted: that is the sender's part."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        line = bed.tool("delay", "--to", listener.getsockname()[1], *options)
        with socket.create_connection(("127.0.0.1", line.port)) as reader, listener.accept()[0] as sender:
            sender.setblocking(False)
            reader.setblocking(False)
            sent = received = 0
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                with contextlib.suppress(BlockingIOError):
                    sent += sender.send(b"x" * 4096)
                with contextlib.suppress(BlockingIOError):
                    received += len(reader.recv(65536))
                time.sleep(0.0005)
            waiting = struct.unpack("i", fcntl.ioctl(sender, termios.TIOCOUTQ, b"\0" * 4))[0]
            return sent - waiting - received


def narrow_scenario(run):
    """a 200 KB/s line full of a download: what an open meets"""
    rate = 200_000
    # The second line keeps less itself, so that more of the wait is ours to answer for.
    for buffer_bytes, queue_bytes in ((65536, 32768), (16384, 16384)):
        options = ["--ms", 5, "--bytes-per-s", rate, "--queue-bytes", queue_bytes, "--buffer-bytes", buffer_bytes]
        with rig.Bed() as bed:
            target = bed.tool("target")
            held = line_holds_bytes(bed, options)
            mesh = through_delay(bed, *options[1:])
            results = [rig.tool_json(
                "load", "mix", "--target", target.port, "--proxy", mesh.socks_port, "--small", 1, "--bulk", 1,
                "--bytes", 1, "--pause-ms", 100, "--seconds", max(3, run.seconds))[0] for _ in range(run.repeats)]
            reply = [r["reply_ms"]["p95"] for r in results]
            kb_s = median([r["bulk_mib_s"] for r in results]) * 1048.576
            run.row("narrow", f"answer to an open beside a download, 200 KB/s, {buffer_bytes >> 10} KiB buffers, p95",
                    median(reply), " ms", at_most=500,
                    detail=f"{spread(reply)}; the full line alone holds {held / 1000:.0f} KB, "
                           f"{held / rate * 1e3:.0f} ms; first byte {median(p95(results)):.0f} ms; "
                           f"bulk {kb_s:.0f} KB/s; {errors(results)} failed")


SCENARIOS = {"bulk": bulk_scenario, "tls": tls_scenario, "mix": mix_scenario, "rtt": rtt_scenario,
             "narrow": narrow_scenario}
