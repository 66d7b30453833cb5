"""Turns ctest's JUnit file into lines of 'status<TAB>name<TAB>reason' for ./run-tests, and shows what failed."""
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


def main():
    prefix, path = sys.argv[1:]
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, output = case.get("name"), case.findtext("system-out") or ""
        if case.find("skipped") is not None and case.get("status") != "disabled":
            print(f"skipped\t{prefix} {name}\t{skip_reason(output)}")
        elif case.get("status") == "run":
            print(f"passed\t{prefix} {name}\t")
        else:
            print(f"failed\t{prefix} {name}\t{case.get('status')}")
            print(f"--- {prefix} {name}\n{output[-4000:]}", file=sys.stderr)


if __name__ == "__main__":
    main()
