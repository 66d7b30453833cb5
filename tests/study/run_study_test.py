#!/usr/bin/env python3
"""models/study/run_study.py makes runs on two machines and a report of both; the near-tie of ./quickstart is what is recorded of it.

Usage: run_study_test.py TOOL"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build/bin/reprofuse"
STUDY = ROOT / "models/study"


def checked(*words) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


class Script(unittest.TestCase):
    def test_runs_of_two_machines_become_one_report(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            runs, out = pathlib.Path(folder) / "runs", pathlib.Path(folder) / "out"
            script = [sys.executable, "-B", STUDY / "run_study.py", "--tool", TOOL, "--runs", runs]
            making = ["--platforms", "scalar", "--tasks", "choice-small", "--problems", 1, "--contracts", "--jobs", 2]
            self.assertEqual(len(checked(*script, "run", "--machine", "one", *making).splitlines()), 3)  # models
            self.assertEqual(checked(*script, "run", "--machine", "one", *making), "", "what is there is not made again")
            with self.assertRaises(subprocess.CalledProcessError) as refused:
                checked(*script, "run", "--machine", "one", "--platforms", "mmx")
            self.assertEqual(refused.exception.stderr,
                             "mmx is none of cuda, avx512, avx2, avx2-batch8, avx512-threads2, scalar, aarch64\n")
            checked(*script, "run", "--machine", "other", *making)
            (runs / "qwen3-4m/choice-small/third-scalar.part").write_text("a run that was interrupted is left out")
            checked(*script, "report", "--out", out, "--commit", "abc123")
            text = (out / "README.md").read_text()
            # Of 3 models x 3 contracts: 1 problem x 3 seeds between machines, and x 3 pairs of seeds on both.
            self.assertIn("Of 81 pairs of answers by `fma-1`, `exact-1` or `int16-1`, between platforms and between seeds, 0 have", text)
            self.assertIn("commit abc123", text)
            self.assertIn("| untied-5m | choice-small | 1 | 2 | 0 of 27 |", text)
            self.assertIn("| other-scalar | cpu scalar, 1 thread | - | 4 | 3 |", text)
            self.assertNotIn("third", text)
            self.assertIn("<title>ReproFuse study</title>", (out / "report.html").read_text())


class OtherFormats(unittest.TestCase):
    """The commands of docs/study.md make tasks of GSM8K's and MMLU's files."""

    @unittest.skipUnless(shutil.which("jq"), "jq was not found")
    def test_gsm8k_and_mmlu_become_tasks(self) -> None:
        page = (ROOT / "docs/study.md").read_text()
        (commands,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "> gsm8k.jsonl" in block]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "test.jsonl").write_text(json.dumps(
                {"question": "How much does she make?", "answer": "She makes 9 * 2 = $<<9*2=18>>18.\n#### 1,018"}) + "\n")
            (pathlib.Path(folder) / "algebra_test.csv").write_text('"Find the degree, if any.",0,4,"2, or 3",6,C\n')
            subprocess.run(["bash", "-ec", commands], cwd=folder, check=True)
            made = [json.loads((pathlib.Path(folder) / name).read_text()) for name in ("gsm8k.jsonl", "mmlu.jsonl")]
        self.assertEqual(made, [{"prompt": "How much does she make?", "answer": "1,018"},
                                {"prompt": "Find the degree, if any.\nA. 0\nB. 4\nC. 2, or 3\nD. 6\nAnswer with a letter.",
                                 "answer": "C"}])


class NearTie(unittest.TestCase):
    recorded = json.loads((STUDY / "near-tie.json").read_text())
    lines = (STUDY / "near-tie.jsonl").read_text().splitlines(keepends=True)

    def test_contracts_have_one_answer(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "alone.jsonl"
            alone.write_text(self.lines[0])
            for numerics in ("fma-1", "exact-1"):
                for options in (["--jsonl", alone], ["--jsonl", STUDY / "near-tie.jsonl"], ["--jsonl", alone, "--isa", "scalar"]):
                    made = checked(TOOL, "generate", "--model", STUDY / "qwen3-4m", "--chat", "--digest", "--numerics", numerics, *options)
                    answer = json.loads(made.splitlines()[0])
                    self.assertEqual(answer["digest"], self.recorded[numerics], options)
                    self.assertTrue(answer["text"].endswith("= 440.\nAnswer: C"), answer["text"])

    def test_it_is_a_problem_of_the_task(self) -> None:
        problems = [json.loads(line) for line in (STUDY / "tasks/choice.jsonl").read_text().splitlines()]
        by_id = {problem["id"]: problem for problem in problems}
        for line in map(json.loads, self.lines):
            self.assertEqual(line["prompt"], by_id[line["id"]]["prompt"])
        self.assertEqual(by_id[json.loads(self.lines[0])["id"]]["answer"], "C")
        self.assertTrue(json.loads(self.lines[0])["prompt"].startswith(self.recorded["question"]))

    def test_the_readme_shows_it(self) -> None:
        shown = (ROOT / "README.md").read_text()
        for kernels in ("AVX-512", "AVX2", "SSE"):
            alone, beside = self.recorded[f"bf16, {kernels} kernels"].split()
            self.assertIn(f"bf16, OpenBLAS's {kernels} kernels, as recorded".ljust(53) + alone.ljust(7) + beside + "\n", shown)
        self.assertIn(f"{'fma-1, here and now':<53}C      C\ndigest {self.recorded['fma-1']}\n", shown)


if __name__ == "__main__":
    unittest.main()
