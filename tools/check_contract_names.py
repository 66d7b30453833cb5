#!/usr/bin/env python3
"""Says where a source names a contract or a baseline outside the tables that define them.

usage: tools/check_contract_names.py [ROOT]

Code asks a contract for facts: its schemes, their limits, what multiplies. A name in a condition would be a second table.
Names that a data type has too ("bf16") are looked for beside a comparison with numerics alone.
"""
import re
import sys

import sources

TABLES = ("src/ops/contract.cpp", "src/ops/baselines.cpp")

# Beginnings of paths where a name may stand, each with its reason.
ALLOWED = {
    "include/reprofuse/context.hpp": "kDefaultNumerics, and what the names mean",
    "include/reprofuse/c/base.h": "what the names mean",
    "src/kernels/backend.cpp": "the default of each kind of device",
    "src/kernels/reference/": "schemes, named after the contract that brought them",
    "src/study/ablation/ablate.hpp": "the vendors' products that the study runs, by their own names",
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
    for where, text in sources.texts(root, "include", "src", "apps", "bench", "fuzz").items():
        if where in TABLES or where.startswith(tuple(ALLOWED)):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            code = line.split("//")[0]
            found += [f"{where}:{number} names '{name}': ask the contract for a fact instead"
                      for name, pattern in patterns.items() if pattern.search(code)]
    return found


if __name__ == "__main__":
    sys.exit(sources.main(complaints))
