#!/usr/bin/env python3
"""README.md, docs/performance.md and docs/measurements/*.md show what was measured, tools/performance_tables.py sees where they do not,
and its tables of small measurements are the ones written here by hand."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tools" / "performance_tables.py"


def seconds(microseconds: float) -> dict[str, float]:
    return {"median_s": microseconds * 1e-6}


def small_run(contract: str, fma_fraction: float | None) -> dict:
    """Two baselines, as they come from a run that asked for no LayerCast."""
    row = {"name": "o", "m": 4, "n": 1000, "k": 2000, "linear": seconds(2), "read_fraction": 0.5,
           "fma_fraction": fma_fraction, "bf16": seconds(1), "bf16_ratio": 0.5, "sgemm": seconds(5), "sgemm_ratio": 2.5}
    forward = {"model": "small", "m": 4, "with_head": False, "linear_s": 0.002, "bf16_s": 0.001, "bf16_ratio": 0.5,
               "sgemm_s": 0.005, "sgemm_ratio": 2.5}
    return {"contract": contract, "device": "cuda:0 Some GPU", "vendor": "cuBLAS 1", "baselines": ["bf16", "sgemm"],
            "rows": [row], "forwards": [forward]}


LINEAR = {"version": "0", "runs": [small_run("exact-1", None), small_run("fma-1", 0.25)]}
MODEL = {"rows": [{"numerics": numerics, "pins_bits": pins_bits, "batch": batch, "step_seconds": batch * 1e-3,
                   "prefill_tokens_per_second": batch * 1e3}
                  for numerics, pins_bits in (("fma-1", True), ("of-a-vendor", False)) for batch in (2, 8)]}

ENGINE = {"device": "cuda:0 Some GPU", "baseline": "of-a-vendor", "rows": [
    {"numerics": "fma-1", "batch": batch, "tokens_per_second": 1234.5, "times_baseline": 2.5,
     "decode_pass": {"median_s": 0.004}, "outside_model": 0.015, "prefill_tokens_per_second": 20000.0,
     "first_token_s": 0.05, "compared_answers": batch - 1, "changed_answers": 0} for batch in (1, 8)]}

# 2 * 8 * 4 * 1000 * 2000 products in 2 us are 0.033 of 1,940 TOP/s.
EXPECTED = {
    "linear source": "2026-01-02, commit abc, cuda:0 Some GPU, cuBLAS 1, one run: `reprofuse bench linear --m 4`",
    "linear projections exact-1": """\
| projection | N x K | M | us | of read bandwidth | of INT8 peak | bf16 | times bf16 | sgemm | times sgemm |
|---|---|---|---|---|---|---|---|---|---|
| o | 1000 x 2000 | 4 | 2.0 | 0.50 | 0.03 | 1.0 | 0.50 | 5.0 | 2.50 |""",
    "linear projections fma-1": """\
| projection | N x K | M | us | of read bandwidth | of FMA peak | bf16 | times bf16 | sgemm | times sgemm |
|---|---|---|---|---|---|---|---|---|---|
| o | 1000 x 2000 | 4 | 2.0 | 0.50 | 0.25 | 1.0 | 0.50 | 5.0 | 2.50 |""",
    "linear forward fma-1": """\
| M | fma-1, ms | bf16 | times bf16 | sgemm | times sgemm | exact-1 |
|---|---|---|---|---|---|---|
| 4 (no head) | 2.00 | 1.00 | 0.50 | 5.00 | 2.50 | 2.00 |""",
    "model steps": """\
| numerics | batch 2 | batch 8 | prefill at batch 8, tokens/s |
|---|---|---|---|
| `fma-1` | 2.00 | 8.00 | 8,000 |
| `of-a-vendor`, same engine | 2.00 | 8.00 | 8,000 |""",
    "engine source": "2026-01-02, commit abc, cuda:0 Some GPU, one run: `reprofuse bench engine --m 4`",
    "engine requests": """\
| numerics | batch | tokens/s | times of-a-vendor | step, ms | outside the model | prefill, tokens/s | first token, ms | answers moved |
|---|---|---|---|---|---|---|---|---|
| `fma-1` | 1 | 1,234 | 2.50 | 4.00 | 1.5 % | 20,000 | 50 | - |
| `fma-1` | 8 | 1,234 | 2.50 | 4.00 | 1.5 % | 20,000 | 50 | 0 of 7 |""",
}


class PerformanceTables(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.docs = self.root / "docs"
        self.docs.mkdir()
        self.document = self.docs / "performance.md"
        self.readme = self.root / "README.md"
        self.readme.touch()

    def run_tool(self, *arguments: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, TOOL, "--root", self.root, *arguments], capture_output=True, text=True,
                              check=False)

    def copy_committed(self) -> None:
        shutil.copytree(ROOT / "docs" / "measurements", self.docs / "measurements")
        shutil.copy(ROOT / "docs" / "performance.md", self.document)
        shutil.copy(ROOT / "README.md", self.readme)

    def record(self, name: str, result: dict) -> None:
        bench_json = self.docs / "bench.json"
        bench_json.write_text(json.dumps(result))
        done = self.run_tool("record", name, bench_json, "--commit", "abc", "--date", "2026-01-02", "--command",
                             f"reprofuse bench {name} --m 4", *(["--integer-peak", "1940e12", "8"] if name == "linear" else []))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def refused(self, text: str) -> str:
        """What the tool says of a document that it can make nothing of, and leaves as it is."""
        self.document.write_text(text)
        done = self.run_tool()
        self.assertEqual((done.returncode, done.stdout, self.document.read_text()), (1, "", text))
        return done.stderr

    def test_the_committed_document_shows_what_was_measured(self) -> None:
        self.copy_committed()
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_changed_number_is_seen_and_put_right(self) -> None:
        self.copy_committed()
        committed = self.document.read_text()
        first_cell = re.compile(r"(<!-- table .*?\| \d+\.)(\d)", re.DOTALL)
        self.document.write_text(first_cell.sub(lambda cell: cell[1] + str((int(cell[2]) + 1) % 10), committed, count=1))
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 1)
        changed = [line for line in done.stdout.splitlines() if line.startswith(("-|", "+|"))]
        self.assertEqual(len(changed), 2, done.stdout)
        self.assertEqual(self.run_tool().returncode, 0)
        self.assertEqual(self.document.read_text(), committed)

    def test_another_measurement_is_seen(self) -> None:
        self.copy_committed()
        for file in sorted((self.docs / "measurements").glob("*.json")):
            measurement = json.loads(file.read_text())
            file.write_text(json.dumps({**measurement, "commit": "0000000"}))
            self.assertEqual(self.run_tool("--check").returncode, 1, file.name)
            file.write_text(json.dumps(measurement))
            self.assertEqual(self.run_tool("--check").returncode, 0, file.name)

    def test_tables_of_small_measurements(self) -> None:
        self.record("linear", LINEAR)
        self.record("model", MODEL)
        self.record("engine", ENGINE)
        for name, result in (("linear", LINEAR), ("model", MODEL), ("engine", ENGINE)):
            kept = json.loads((self.docs / "measurements" / f"{name}.json").read_text())
            self.assertEqual(kept["result"], result)
        self.document.write_text("".join(f"Before.\n<!-- table {of} -->\nold\n<!-- end -->\nAfter.\n" for of in EXPECTED))
        self.assertEqual(self.run_tool().returncode, 0)
        blocks = [f"Before.\n<!-- table {of} -->\n\n{made}\n\n<!-- end -->\nAfter.\n" for of, made in EXPECTED.items()]
        self.assertEqual(self.document.read_text(), "".join(blocks))

    def test_the_readme_and_pages_of_measurements_have_tables_too(self) -> None:
        self.record("linear", LINEAR)
        self.document.write_text("No table.\n")
        for page in (self.readme, self.docs / "measurements" / "page.md"):
            page.write_text("<!-- table linear source -->\nold\n<!-- end -->\n")
            done = self.run_tool("--check")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--- {page.name}", done.stdout)
            self.assertEqual(self.run_tool().returncode, 0)
            self.assertIn(EXPECTED["linear source"], page.read_text())
            self.assertEqual(self.run_tool("--check").returncode, 0)
            page.write_text("<!-- table linear forward exact-2 -->\n<!-- end -->\n")
            self.assertIn(f"{page.name}: ", self.run_tool().stderr)
            page.write_text("")

    def test_a_part_of_the_integer_peak_needs_that_peak(self) -> None:
        self.record("linear", LINEAR)
        file = self.docs / "measurements" / "linear.json"
        measurement = json.loads(file.read_text())
        del measurement["integer_peak"]
        file.write_text(json.dumps(measurement))
        self.assertIn("integer_peak", self.refused("<!-- table linear projections exact-1 -->\n<!-- end -->\n"))
        self.document.write_text("<!-- table linear projections fma-1 -->\n<!-- end -->\n")
        self.assertEqual(self.run_tool().returncode, 0)

    def test_what_no_table_can_be_made_of_is_named(self) -> None:
        self.record("linear", LINEAR)
        shown = "<!-- table linear source -->\n<!-- end -->\n"
        self.assertIn("no table shows linear", self.refused("Nothing.\n"))
        self.assertIn("there is no measurement 'other'; there are linear",
                      self.refused(shown + "<!-- table other source -->\n<!-- end -->\n"))
        self.assertIn("'rows' is none of source, ", self.refused("<!-- table linear rows -->\n<!-- end -->\n"))
        self.assertIn("no contract 'exact-2'", self.refused("<!-- table linear forward exact-2 -->\n<!-- end -->\n"))
        self.assertIn("'linear' has no such table", self.refused("<!-- table linear steps -->\n<!-- end -->\n"))
        self.assertIn("are not 1 pairs", self.refused("<!-- table linear source -->\n" + shown))
        one_less = small_run("fma-1", 0.25)
        one_less["forwards"] = []
        self.record("linear", {"version": "0", "runs": [small_run("exact-1", None), one_less]})
        self.assertIn("'fma-1' was measured 0 times at M = 4",
                      self.refused("<!-- table linear forward exact-1 -->\n<!-- end -->\n"))
        self.record("linear", LINEAR)
        self.assertIn("are not 1 pairs", self.refused(shown + "<!-- end -->\n"))


if __name__ == "__main__":
    unittest.main()
