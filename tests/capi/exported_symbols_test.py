"""The shared library exports the C ABI and the C++ names of its public headers, and nothing else."""
import argparse
import pathlib
import re
import subprocess
import sys


def exported(nm, library):
    out = subprocess.run([nm, "-D", "--defined-only", "-C", library], check=True, capture_output=True, text=True).stdout
    symbols = [re.sub(r"^[0-9a-f]* *[A-Za-z] ", "", line) for line in out.splitlines()]
    return [re.sub(r"@@?\w+.*$", "", symbol) for symbol in symbols]


def is_public(symbol, words):
    if re.fullmatch(r"reprofuse_\w+", symbol):
        return symbol in words
    name = re.sub(r"^(typeinfo|typeinfo name|vtable) for ", "", symbol)
    match = re.match(r"reprofuse::(\w+)", name)
    return match is not None and match.group(1) in words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--headers", type=pathlib.Path, required=True)
    parser.add_argument("library")
    args = parser.parse_args()

    declared = [header.read_text() for header in args.headers.rglob("*.h*")]
    words = set(re.findall(r"\w+", "\n".join(declared)))
    symbols = exported(args.nm, args.library)
    leaked = [symbol for symbol in symbols if not is_public(symbol, words)]
    c_functions = set(re.findall(r"^REPROFUSE_C_API [^;]*?\b(reprofuse_\w+)\(", "\n".join(declared), re.MULTILINE))
    missing = sorted(c_functions - set(symbols))
    for symbol in leaked:
        print(f"exported, but in no public header: {symbol}")
    for symbol in missing:
        print(f"declared, but not exported: {symbol}")
    print(f"{len(symbols)} symbols exported, {len(leaked)} leaked, {len(missing)} missing")
    return 1 if leaked or missing or not symbols else 0


if __name__ == "__main__":
    sys.exit(main())
