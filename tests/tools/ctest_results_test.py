#!/usr/bin/env python3
"""tools/ctest_results.py against what ctest really writes: a test that could not run has failed, not skipped.

Usage: ctest_results_test.py CTEST
"""
import pathlib
import subprocess
import sys
import tempfile

RESULTS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "ctest_results.py"

TESTS = """
add_test(passes true)
add_test(fails false)
add_test(skips_by_code sh -c "echo 'skipped: no device'; exit 77")
set_tests_properties(skips_by_code PROPERTIES SKIP_RETURN_CODE 77)
add_test(skips_like_gtest sh -c "echo 'file.cpp:1: Skipped'; echo 'no GPU here'; echo '[  SKIPPED ] A.B'")
set_tests_properties(skips_like_gtest PROPERTIES SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]")
add_test(was_never_built /nowhere/was_never_built)
add_test(misses_a_file true)
set_tests_properties(misses_a_file PROPERTIES REQUIRED_FILES /nowhere/file)
add_test(is_disabled true)
set_tests_properties(is_disabled PROPERTIES DISABLED TRUE)
add_test(runs_too_long sleep 20)
set_tests_properties(runs_too_long PROPERTIES TIMEOUT 0.2)
"""

EXPECTED = {
    "passes": ("passed", ""),
    "fails": ("failed", "fail"),
    "skips_by_code": ("skipped", "no device"),
    "skips_like_gtest": ("skipped", "no GPU here"),
    "was_never_built": ("failed", "Unable to find executable"),
    "misses_a_file": ("failed", "Required Files Missing"),
    "is_disabled": ("failed", "disabled"),
    "runs_too_long": ("failed", "fail"),
}


def results(ctest, tests):
    """{name: (status, reason)} for a project that has these tests."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "CTestTestfile.cmake").write_text(tests)
        junit = f"{folder}/junit.xml"
        subprocess.run([ctest, "--test-dir", folder, "--output-junit", junit], capture_output=True, check=False)
        done = subprocess.run([sys.executable, RESULTS, "release", junit], capture_output=True, text=True, check=True)
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return {name.removeprefix("release").strip(): (status, reason) for status, name, reason in lines}


def main():
    faults = []
    got = results(sys.argv[1], TESTS)
    for name in sorted(EXPECTED.keys() | got.keys()):
        if got.get(name) != EXPECTED.get(name):
            faults.append(f"{name}: {got.get(name)}, expected {EXPECTED.get(name)}")
    if (nothing := results(sys.argv[1], "")) != {"": ("failed", "ctest ran no tests")}:
        faults.append(f"no tests at all: {nothing}")
    print("\n".join(faults) or "passed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
