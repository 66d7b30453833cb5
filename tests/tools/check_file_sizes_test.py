#!/usr/bin/env python3
"""tools/check_file_sizes.py passes on this repository and fails for one line too many, and where it finds no source."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(folder):
    command = [sys.executable, ROOT / "tools" / "check_file_sizes.py", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check_with(name, lines):
    """What is said of a folder that has a source of so many lines under this name."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / name
        file.parent.mkdir(parents=True)
        file.write_text("int x;\n" * lines)
        return check(folder)


def main():
    failures = []
    if check(ROOT).returncode != 0:
        failures.append(f"this repository is refused:\n{check(ROOT).stdout}")
    limits = {"src/engine/a.cpp": 400, "apps/cli/b.hpp": 400, "include/reprofuse/c.h": 400, "src/kernels/cuda/d.cu": 400,
              "examples/e.c": 60, "examples/f.py": 60}
    for name, lines in limits.items():
        if check_with(name, lines).returncode != 0:
            failures.append(f"{name} of {lines} lines is refused")
        refused = check_with(name, lines + 1)
        if refused.returncode == 0 or f"{name}: {lines + 1} lines" not in refused.stdout:
            failures.append(f"{name} of {lines + 1} lines is not refused by name: {refused.stdout}")
    if check_with("docs/page.md", 1).returncode == 0:
        failures.append("a folder without sources passes")
    print("\n".join(failures) or "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
