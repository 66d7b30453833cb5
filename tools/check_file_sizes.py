#!/usr/bin/env python3
"""check_file_sizes.py [FOLDER]: no source under src/, apps/ and include/ has more than 400 lines."""
import pathlib
import sys

MAX_LINES = 400
ROOTS = ("src", "apps", "include")
ENDINGS = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".in"}


def sources(folder):
    return sorted(path for root in ROOTS for path in (folder / root).rglob("*") if path.suffix in ENDINGS)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    files = sources(folder)
    if not files:
        print(f"{folder}: no sources under {', '.join(ROOTS)}")
        return 1
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    too_long = {path: count for path, count in lines.items() if count > MAX_LINES}
    for path, count in too_long.items():
        print(f"{path.relative_to(folder)}: {count} lines, at most {MAX_LINES} are allowed")
    if not too_long:
        print(f"{len(files)} sources of at most {max(lines.values())} lines")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
