#!/usr/bin/env python3
"""Says where a source names a contract or a baseline outside the tables that define them.

usage: tools/check_contract_names.py [ROOT]

Code asks a contract for facts: its schemes, their limits, what multiplies. A name in a condition would be a second table.
Names that a data type has too ("bf16") are looked for beside a comparison with numerics alone.
"""
import pathlib
import re
import sys

TABLES = ("src/ops/contract.cpp", "src/ops/baselines.cpp")

# Beginnings of paths where a name may stand, each with its reason.
ALLOWED = {
    "include/reprofuse/context.hpp": "kDefaultNumerics, and what the names mean",
    "include/reprofuse/c/base.h": "what the names mean",
    "src/kernels/reference/": "schemes, named after the contract that brought them",
    "src/study/ablation/machine.hpp": "the vendors' products that the study runs, by their own names",
}
DTYPES = ("f32", "bf16", "f16")
ROW = re.compile(r'^\s*\{\.name = "([^"]+)"', re.MULTILINE)


def names(root):
    found = []
    for table in TABLES:
        found += ROW.findall((root / table).read_text(encoding="utf-8"))
    return found


def pattern_of(name):
    literal = f'"{re.escape(name)}"'
    if name not in DTYPES:
        return re.compile(literal)
    subject = r"(?:numerics|contract|baseline|name)\w*(?:\(\)|\.name|->name)?"
    return re.compile(rf"{subject}\s*[!=]=\s*{literal}|baselines\w*\.\w+\({literal}|\.end\(\), {literal}\)")


def complaints(root):
    rows = names(root)
    if not rows:
        return [f"{TABLES[0]} has no row that this script can read"]
    patterns = {name: pattern_of(name) for name in rows}
    found = []
    for top in ("include", "src", "apps", "bench", "fuzz"):
        for path in sorted((root / top).rglob("*")):
            where = path.relative_to(root).as_posix()
            if path.suffix not in (".hpp", ".cpp", ".h", ".cu", ".cuh") or where in TABLES:
                continue
            if any(where.startswith(start) for start in ALLOWED):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                code = line.split("//")[0]
                found += [f"{where}:{number} names '{name}': ask the contract for a fact instead"
                          for name, pattern in patterns.items() if pattern.search(code)]
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = complaints(root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
