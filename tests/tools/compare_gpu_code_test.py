#!/usr/bin/env python3
"""tools/compare_gpu_code.py on object files of the host's compiler, which have a section for each function as cubins have."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "compare_gpu_code.py"


class CompareGpuCode(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def build(self, name: str, source: str) -> pathlib.Path:
        folder = self.folder / name
        (folder / "ptx").mkdir(parents=True)
        subprocess.run(["cc", "-O1", "-ffunction-sections", "-x", "c", "-c", "-", "-o", folder / "ptx" / "a.cubin"],
                       input=source, text=True, check=True)
        return folder

    def compare(self, *builds) -> tuple[int, str]:
        run = subprocess.run([sys.executable, TOOL, *builds], capture_output=True, text=True)
        return run.returncode, run.stdout or run.stderr

    def test_other_names_and_another_order_are_the_same_code(self):
        before = self.build("before", "int f(int x) { return x * 3; } int g(int x) { return x + 77; }")
        after = self.build("after", "int sum(int x) { return x + 77; } int product(int x) { return x * 3; }")
        self.assertEqual(self.compare(before, after),
                         (0, "2 kernels have the same code, 0 before and 0 after have other code\n"))

    def test_another_constant_is_other_code(self):
        before = self.build("before", "int f(int x) { return x * 3; } int g(int x) { return x + 77; }")
        after = self.build("after", "int f(int x) { return x * 3; } int g(int x) { return x + 78; }")
        self.assertEqual(self.compare(before, after),
                         (1, "- a.cubin g\n+ a.cubin g\n1 kernels have the same code, 1 before and 1 after have other code\n"))

    def test_a_second_copy_is_other_code(self):
        before = self.build("before", "int f(int x) { return x * 3; }")
        after = self.build("after", "int f(int x) { return x * 3; } int g(int x) { return x * 3; }")
        self.assertEqual(self.compare(before, after)[0], 1)

    def test_a_folder_without_gpu_code_cannot_be_compared(self):
        status, message = self.compare(self.folder, self.folder)
        self.assertEqual(status, 2)
        self.assertIn("no ptx/*.cubin", message)


if __name__ == "__main__":
    unittest.main()
