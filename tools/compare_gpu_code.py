#!/usr/bin/env python3
"""Tells which GPU kernels of two builds have the same machine code, whatever they are called in either.

  compare_gpu_code.py BEFORE AFTER   two build folders, configured for the same architectures

The build keeps the code of each .cu as BUILD/ptx/*.cubin. Kernels are compared byte for byte, so a change that only renames or
moves things shows none. Exit status: 0 the same code, 1 other code, 2 could not compare.
"""
import collections
import hashlib
import pathlib
import struct
import sys


def kernels(cubin: bytes):
    """Yields the name and the code of every function of an ELF file."""
    table, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length, *_ in sections:
        at = sections[names][4] + name
        text = cubin[at:cubin.index(b"\0", at)].decode()
        if text.startswith(".text."):
            yield text.removeprefix(".text."), cubin[offset:offset + length]


def code_of(build: str):
    files = sorted(pathlib.Path(build, "ptx").glob("*.cubin"))
    if not files:
        sys.exit(f"{build}: no ptx/*.cubin; is it a build with CUDA?")
    found = collections.defaultdict(list)
    for file in files:
        for name, code in kernels(file.read_bytes()):
            found[hashlib.sha256(code).digest()].append(f"{file.name} {name}")
    return found


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        before, after = map(code_of, sys.argv[1:])
    except (SystemExit, OSError, struct.error, ValueError) as error:
        print(f"compare_gpu_code.py: {error}", file=sys.stderr)
        return 2
    other = 0
    for sign, these, those in (("-", before, after), ("+", after, before)):
        for code, names in these.items():
            changed = names[len(those.get(code, [])):]
            other += len(changed)
            for name in changed:
                print(sign, name)
    same = sum(min(len(names), len(after.get(code, []))) for code, names in before.items())
    print(f"{same} kernels have the same code, {sum(map(len, before.values())) - same} before and "
          f"{sum(map(len, after.values())) - same} after have other code")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
