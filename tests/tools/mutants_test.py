#!/usr/bin/env python3
"""tools/mutants/mutants.py in a project of two lines: a mutant that a test notices is killed, a changed comment survives, and
a list that does not fit the sources any more is refused before anything is built."""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "mutants" / "mutants.py"
sys.path.insert(0, str(TOOL.parent))
import mutants  # pylint: disable=wrong-import-position
FILES = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.25)
project(Sums CXX)
add_subdirectory(tests)
""",
    "tests/CMakeLists.txt": """add_executable(sums_test sums_test.cpp ../src/sums.cpp)
add_executable(again_test sums_test.cpp ../src/sums.cpp)
set_target_properties(sums_test again_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
""",
    "src/sums.cpp": """// Adds.
int sum(int a, int b) { return a + b; }
int difference(int a, int b) { return a - b; }
""",
    # What a binary of GoogleTest takes and prints, without compiling GoogleTest.
    "tests/sums_test.cpp": """#include <cstdio>
#include <cstring>
int sum(int, int);
int difference(int, int);
#define TEST(suite, name) bool suite##name()
TEST(Sums, Add) { return sum(2, 3) == 5; }
TEST(Sums, Subtract) { return difference(2, 3) == -1; }
#define TEST_P(suite, name) bool suite##name()
TEST_P(Sums, Each) { return true; }
bool run(const char* filter, const char* name, bool (*test)()) {
  if (std::strcmp(filter, "--gtest_filter=*") != 0 && std::strstr(filter, name) == nullptr) return true;
  std::printf("[ RUN      ] %s\\n", name);
  const bool passed = test();
  if (passed) std::printf("[       OK ] %s\\n", name);
  return passed;
}
int main(int, char** arguments) {
  return run(arguments[1], "Sums.Add", SumsAdd) && run(arguments[1], "Sums.Subtract", SumsSubtract) ? 0 : 1;
}
""",
}
KILLED = {"id": "killed", "find": "a + b", "replace": "a * b"}
SURVIVOR = {"id": "survivor", "find": "// Adds.", "replace": "// Sums."}
NOT_CXX = {"id": "not-cxx", "find": "return a + b", "replace": "return a +"}
ENDLESS = {"id": "endless", "find": "return a + b;", "replace": "for (volatile int i = 0;; i = a + b) {}"}
WAITING = {"id": "waiting", "find": "int sum(int a, int b) { return a + b; }",
           "replace": "#include <unistd.h>\\nint sum(int, int) { return pause(); }"}
OF_ANOTHER_TEST = {"id": "of-another-test", "find": "a - b", "replace": "b - a"}


def entry(mutant: dict[str, str]) -> str:
    fields = {"file": "src/sums.cpp", "claim": "sums are right", "test": "sums_test", "filter": "Sums.Add", **mutant}
    return "[[mutant]]\n" + "".join(f'{key} = "{value}"\n' for key, value in fields.items())


class Mutants(unittest.TestCase):
    def setUp(self) -> None:
        # pylint: disable-next=consider-using-with
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def write_list(self, *entries: dict[str, str]) -> None:
        (self.root / "lists").mkdir(exist_ok=True)
        (self.root / "lists" / "all.toml").write_text("\n".join(entry(mutant) for mutant in entries))

    def command(self, *options: str) -> list[str | pathlib.Path]:
        return [sys.executable, TOOL, "--root", self.root, "--lists", self.root / "lists", *options]

    def run_tool(self, *entries: dict[str, str], options: tuple[str, ...] = ()) -> tuple[int, str]:
        self.write_list(*entries)
        done = subprocess.run(self.command(*options), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_the_table_says_what_became_of_each(self) -> None:
        status, text = self.run_tool(KILLED, SURVIVOR, NOT_CXX, OF_ANOTHER_TEST)
        self.assertEqual(status, 1, text)
        self.assertRegex(text, r"killed +killed by Sums.Add")
        self.assertRegex(text, r"survivor +SURVIVED")
        self.assertRegex(text, r"not-cxx +DID NOT COMPILE")
        self.assertRegex(text, r"of-another-test +SURVIVED", "only the tests that are named are run")
        self.assertIn("1 of 4 mutants were killed (25.0 %)", text)
        self.assertEqual((self.root / "src/sums.cpp").read_text(), FILES["src/sums.cpp"], "the checkout is only read")
        status, text = self.run_tool(KILLED, {**SURVIVOR, "equivalent": "a comment"}, options=("kill*", "surv*"))
        self.assertEqual(status, 0, text)
        self.assertIn("1 of 1 mutants were killed (100.0 %), and 1 are called equivalent", text)

    def test_a_test_that_takes_too_much_of_the_processor_has_noticed(self) -> None:
        status, text = self.run_tool(ENDLESS, options=("--patience", "1"))
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"endless +killed by its processor time, which ran out")

    def test_a_test_that_waits_without_an_end_has_not_noticed(self) -> None:
        status, text = self.run_tool(WAITING, options=("--patience", "0.1"))
        self.assertEqual(status, 1, text)
        self.assertRegex(text, r"waiting +WAITED")

    def test_waiting_is_told_from_being_kept_waiting(self) -> None:
        for script, stop, computes in (("while True: pass", False, True), ("input()", False, False), ("input()", True, True)):
            command = [sys.executable, "-c", f"print(flush=True)\n{script}"]
            with self.subTest(script, stop=stop), subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                                                                   stdout=subprocess.PIPE, start_new_session=True) as process:
                process.stdout.readline()
                if stop:
                    process.send_signal(signal.SIGSTOP)
                time.sleep(0.5)
                self.assertEqual(mutants.computes(process.pid), computes)
                process.kill()

    def test_mutants_of_two_binaries_are_tried_in_two_builds(self) -> None:
        _, text = self.run_tool(KILLED, {**KILLED, "id": "again", "test": "again_test"}, SURVIVOR, options=("--jobs", "2"))
        self.assertRegex(text, r"killed +killed by Sums.Add")
        self.assertRegex(text, r"again +killed by Sums.Add")
        self.assertIn("2 of 3 mutants were killed", text)
        self.assertEqual(len(list((self.root / "build-mutants").glob("*/tree"))), 2)

    def test_an_interrupted_run_ends_what_it_started_and_keeps_what_it_knows(self) -> None:
        self.write_list(KILLED, WAITING)
        with subprocess.Popen(self.command(), stdout=subprocess.PIPE, text=True) as tool:
            self.assertRegex(tool.stdout.readline(), "killed +killed by Sums.Add")
            tool.terminate()
            self.assertEqual(tool.wait(60), 2)
        self.assertRegex(self.run_tool(KILLED, options=("killed",))[1], r"killed by Sums.Add \(known\)")

    def test_a_second_run_goes_on_with_what_is_not_known(self) -> None:
        self.run_tool(KILLED, SURVIVOR)
        _, text = self.run_tool(KILLED, SURVIVOR)
        self.assertRegex(text, r"killed +killed by Sums.Add \(known\)\n")
        self.assertRegex(text, r"survivor +SURVIVED\n", "what is not as it should be is tried again")
        path = self.root / "tests/sums_test.cpp"
        path.write_text(path.read_text().replace("sum(2, 3) == 5", "sum(2, 2) == 4"))
        self.assertRegex(self.run_tool(KILLED)[1], r"killed +SURVIVED\n", "another test may see less")
        path.write_text(FILES["tests/sums_test.cpp"])
        self.assertRegex(self.run_tool(KILLED)[1], r"killed +killed by Sums.Add\n")
        self.assertRegex(self.run_tool(KILLED, options=("--again",))[1], r"killed +killed by Sums.Add\n")

    def test_an_equivalent_that_is_killed_is_none(self) -> None:
        status, text = self.run_tool({**KILLED, "equivalent": "who knows"})
        self.assertEqual(status, 1, text)
        self.assertIn("killed by Sums.Add, though it is called equivalent", text)

    def test_without_mutants_the_tests_must_pass(self) -> None:
        path = self.root / "src/sums.cpp"
        path.write_text(path.read_text().replace("a - b", "b - a"))
        status, text = self.run_tool({**KILLED, "filter": "*"})
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r"sums_test fails without any mutant: (.*\n)*\[ RUN      \] Sums.Subtract\n")

    def test_a_list_that_does_not_fit_is_refused(self) -> None:
        (self.root / "src/moved.cpp").write_text("int twice(int a) { return a + a; }\n")
        cases = {"has the text 0 times, not once": {**KILLED, "find": "a / b"},
                 "has the text 2 times, not once": {**KILLED, "find": "int a"},
                 "it stands in src/moved.cpp": {**KILLED, "find": "a + a"},
                 "src/gone.cpp is not there": {**KILLED, "file": "src/gone.cpp"},
                 "it changes nothing": {**KILLED, "replace": KILLED["find"]},
                 "no test binary is called": {**KILLED, "test": "other_test"},
                 "no test is called Sums.Divide": {**KILLED, "filter": "Sums.Divide"},
                 "no test is called Sums.Each": {**KILLED, "filter": "Sums.Each"},
                 "unexpected keyword argument 'why'": {**KILLED, "why": "?"}}
        for expected, mutant in cases.items():
            with self.subTest(expected):
                status, text = self.run_tool(mutant, options=("--check",))
                self.assertEqual(status, 2, text)
                self.assertIn(expected, text)
        self.assertEqual(self.run_tool(KILLED, KILLED, options=("--check",))[0], 2)
        self.assertEqual(self.run_tool(KILLED, SURVIVOR, options=("--check",)), (0, "2 mutants fit the sources\n"))


if __name__ == "__main__":
    unittest.main()
