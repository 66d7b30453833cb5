#!/usr/bin/env python3
"""check_file_sizes.py [FOLDER]: no source in C, C++ or CUDA has more than 400 lines, and no example more than 60."""
import pathlib
import sys

import sources

MAX_LINES = 400
MAX_LINES_OF_AN_EXAMPLE = 60
ROOTS = ("src", "apps", "include", "tests", "fuzz", "bench", "examples")


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    lines = {path: len(text.splitlines()) for path, text in sources.texts(folder, *ROOTS).items()}
    lines |= {path: len(text.splitlines()) for path, text in sources.texts(folder, "examples", endings={".py"}).items()}
    if not lines:
        print(f"{folder}: no sources under {', '.join(ROOTS)}")
        return 1
    too_long = 0
    for path, count in lines.items():
        allowed = MAX_LINES_OF_AN_EXAMPLE if path.startswith("examples/") else MAX_LINES
        if count > allowed:
            too_long += 1
            print(f"{path}: {count} lines, at most {allowed} are allowed")
    if not too_long:
        print(f"{len(lines)} sources of at most {max(lines.values())} lines")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
