"""Turns ctest's JUnit file into lines of 'status<TAB>name<TAB>reason' for ./run-tests, and shows what failed.

Usage: ctest_results.py PREFIX JUNIT_FILE
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

# Where a test says why it skips: GTEST_SKIP() << "reason", or "skipped: reason" from a script.
REASONS = (r"Skipped\n(.+)", r"skipped: (.+)")


def skip_reason(output):
    for pattern in REASONS:
        if match := re.search(pattern, output):
            return match.group(1).strip()
    return "no reason given"


def result(case):
    """(status, reason) of a test. One that ctest could not start is marked as skipped too, and has failed."""
    note = case.find("skipped")
    message = note.get("message", "") if note is not None else ""
    if message.startswith("SKIP_"):  # SKIP_RETURN_CODE or SKIP_REGULAR_EXPRESSION: the test itself asked for it
        return "skipped", skip_reason(case.findtext("system-out") or "")
    if case.get("status") == "run":
        return "passed", ""
    return "failed", message or case.get("status")


def main():
    prefix, path = sys.argv[1:]
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    if not cases:
        print(f"failed\t{prefix}\tctest ran no tests")
    for case in cases:
        status, reason = result(case)
        name = f"{prefix} {case.get('name')}"
        print(f"{status}\t{name}\t{reason}")
        if status == "failed":
            print(f"--- {name}\n{(case.findtext('system-out') or '')[-4000:]}", file=sys.stderr)


if __name__ == "__main__":
    main()
