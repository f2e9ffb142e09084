"""Keeps the bench working: every measuring program once, a tiny run, and what a report says."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import dns  # noqa: E402
import report  # noqa: E402
import rig  # noqa: E402


class Tools(unittest.TestCase):
    def setUp(self):
        self.bed = rig.Bed()
        self.addCleanup(self.bed.__exit__, None, None, None)
        self.target = self.bed.tool("target")

    def load(self, mode, *arguments, port=None):
        return rig.tool_json("load", mode, "--target", port or self.target.port, *arguments)[-1]

    def test_opens_are_counted_and_timed(self):
        result = self.load("open", "--concurrency", 8, "--count", 100)
        self.assertEqual((result["first_byte_ms"]["n"], result["errors"]), (100, {}))
        self.assertGreaterEqual(result["first_byte_ms"]["max"], result["first_byte_ms"]["p50"])
        self.assertGreater(result["first_byte_ms"]["p50"], 0)

    def test_a_refused_target_is_an_error_of_that_flow(self):
        with rig.Bed() as bed:
            closed = bed.tool("target")
            port = closed.port
        self.assertEqual(self.load("refused", port=port)["errors"], {"connect: Connection refused": 1})

    def test_the_chain_keeps_bytes_and_half_close(self):
        port, _ = self.bed.chain(self.target.port)
        self.assertEqual(self.load("half", "--bytes", 3_000_000, port=port), {"received": 3_000_000, "errors": {}})

    def test_bulk_moves_bytes_both_ways_and_tells_the_worst_share(self):
        for up in (0, 1):
            result = self.load("bulk", "--streams", 2, "--seconds", 0.2, "--warm-s", 0.1, "--up", up)
            self.assertEqual((result["streams"], result["errors"]), (2, {}))
            self.assertGreater(result["bytes"], 1_000_000)
            self.assertGreaterEqual(result["worst_share"], 0)

    def test_small_flows_go_on_beside_a_stalled_reader(self):
        result = self.load("mix", "--small", 4, "--stalled", 1, "--bulk", 1, "--seconds", 0.2)
        self.assertEqual(result["errors"], {})
        self.assertGreater(result["first_byte_ms"]["n"], 10)
        self.assertGreater(result["bulk_mib_s"], 0)

    def test_idle_streams_are_held_until_told(self):
        load = rig.Load("idle", "--target", self.target.port, "--count", 50)
        try:
            self.assertEqual(load.next()["held"], 50)
            self.assertIsNone(load.process.poll())
        finally:
            load.close()
        self.assertEqual(load.process.returncode, 0)

    def test_the_delay_adds_its_time_in_each_direction(self):
        line = self.bed.tool("delay", "--to", self.target.port, "--ms", 20)
        result = self.load("open", "--concurrency", 1, "--count", 3, port=line.port)
        self.assertGreaterEqual(result["first_byte_ms"]["p50"], 40)
        self.assertEqual(self.load("half", "--bytes", 1_000_000, port=line.port)["received"], 1_000_000)

    def test_the_delay_limits_the_rate(self):
        line = self.bed.tool("delay", "--to", self.target.port, "--ms", 1, "--bytes-per-s", 1_000_000)
        begin = time.monotonic()
        self.assertEqual(self.load("half", "--bytes", 300_000, port=line.port)["received"], 300_000)
        self.assertGreaterEqual(time.monotonic() - begin, 0.28)


    def test_the_tls_loop_encrypts_and_decrypts(self):
        with tempfile.TemporaryDirectory() as pki:
            subprocess.run([os.path.join(HERE, "..", "support", "make_ca.sh"), pki], check=True, timeout=60)
            result = rig.tool_json("tls", "--cert", f"{pki}/server.pem", "--key", f"{pki}/server-key.pem", "--ca",
                                   f"{pki}/ca.pem", "--seconds", 0.1)[0]
        self.assertEqual(result["tls"], "1.3")
        self.assertGreater(result["mib_s"], 0)


class Dns(unittest.TestCase):
    def test_a_questions_get_an_address_and_others_an_empty_answer(self):
        def ask(kind):
            return dns.answer(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01t\x05bench\x00\x00" + bytes([kind])
                              + b"\x00\x01")

        self.assertEqual(ask(1)[:12], b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00")
        self.assertEqual(ask(1)[-4:], b"\x7f\x00\x00\x01")
        self.assertEqual(ask(28)[6:8], b"\x00\x00")
        self.assertIsNone(dns.answer(b"short"))


class Report(unittest.TestCase):
    def test_a_row_is_met_missed_reported_or_deferred(self):
        self.assertEqual(report.Row("s", "w", 1.1, at_most=1.2).verdict, report.MET)
        self.assertEqual(report.Row("s", "w", 1.3, at_most=1.2).verdict, report.MISSED)
        self.assertEqual(report.Row("s", "w", 1.9, at_least=2.0, at_most=2.1).verdict, report.MISSED)
        self.assertEqual(report.Row("s", "w", 1.9).verdict, report.REPORTED)
        row = report.Row("s", "w", at_most=1, deferred="no root")
        self.assertEqual(row.verdict, report.DEFERRED)
        facts = {**report.machine(), "revision": "r", "repeats": 1, "seconds": 1}
        self.assertIn("deferred: no root", report.markdown(facts, [row], []))


    def test_results_are_pasted_between_the_markers_only(self):
        page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
        self.assertEqual(report.pasted(page, "new\n"), f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n")
        with self.assertRaises(ValueError):
            report.pasted("no markers", "new")


class Bench(unittest.TestCase):
    def run_bench(self, only, **more):
        with tempfile.TemporaryDirectory() as folder:
            tiny = {"BENCH_ONLY": only, "BENCH_SECONDS": "0.1", "BENCH_REPEATS": "1", "BENCH_OUT": folder}
            done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "bench.py")], timeout=100, check=False,
                                  capture_output=True, text=True, env={**os.environ, **tiny, **more})
            rows = None
            if os.path.exists(os.path.join(folder, "report.json")):
                with open(os.path.join(folder, "report.json"), encoding="utf-8") as f:
                    rows = json.load(f)["rows"]
            return done, rows

    def test_a_tiny_run_writes_its_rows(self):
        done, rows = self.run_bench("ends")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([row["verdict"] for row in rows], [report.MET, report.MET], rows)

    def test_an_unknown_scenario_is_a_usage_error(self):
        self.assertEqual(self.run_bench("nonsense")[0].returncode, 2)

    def test_a_scenario_that_broke_fails_the_run_and_is_in_the_report(self):
        with tempfile.TemporaryDirectory() as empty:
            done, rows = self.run_bench("ends", TMESH_BIN=empty)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(rows[0]["deferred"].startswith("broke"), rows)


if __name__ == "__main__":
    unittest.main()
