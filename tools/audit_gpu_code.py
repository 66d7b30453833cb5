#!/usr/bin/env python3
"""Checks that GPU code keeps to its numerical contract, instruction by instruction.

  audit_gpu_code.py ptx [--build build]   checks the PTX of every .cu and every architecture, which the build keeps; with
                                          --architectures 80,90 a build of these alone is whole
  audit_gpu_code.py sass BINARY...        checks the machine code in a program, library or object file (cuobjdump)
  audit_gpu_code.py text FILE...          checks .ptx files, or .sass files that cuobjdump --dump-sass printed

The rules are beside the kernels, in files audit_rules.py. Exit status: 0 clean, 1 violations, 2 could not check.
"""
import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

import gpu_code_rules as rules

ARCHITECTURES = ("80", "90", "100", "120")

Instruction = collections.namedtuple("Instruction", "target kernel line text")


class CannotCheck(Exception):
    """The code could not be looked at; the message says why."""


PTX_FUNCTION = r"\s*(?:\.\w+\s+)*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)"
# What may stand before an instruction: braces, labels, a predicate, which inline assembly may have named itself.
PTX_STATEMENT = r"[\s{}]*(?:[\w$]+:(?!:)[\s{}]*)*(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:[.:]+\w+)*(?:\s.*)?)$"


def read_ptx(text, target):
    """Yields the instructions of every function, kernels and called ones alike. Blocks within one may end anywhere."""
    kernel, depth = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("//")[0]
        if depth == 0 and (head := re.match(PTX_FUNCTION, line)):
            kernel = head.group(1)
        elif kernel:
            for statement in line.split(";"):
                if match := re.match(PTX_STATEMENT, statement.rstrip()):
                    yield Instruction(target, kernel, number, match.group(1))
        depth += line.count("{") - line.count("}")
        if depth == 0 and "}" in line:
            kernel = None


def read_sass(text):
    """Yields the instructions of what cuobjdump --dump-sass printed; targets and kernels are named in it."""
    target, kernel = "sm_?", None
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"code for (sm_\w+)", line):
            target = match.group(1)
        elif match := re.search(r"Function : (\S+)", line):
            kernel = match.group(1)
        elif match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][^;]*?)\s*;", line):
            yield Instruction(target, kernel, number, match.group(1))


def readable(kernel):
    """The kernel's name as a person writes it, where binutils are installed."""
    tool = shutil.which("c++filt")
    if not tool:
        return kernel
    name = subprocess.run([tool, kernel], capture_output=True, text=True, check=True).stdout.strip()
    return re.sub(r"^void |\(.*$", "", re.sub(r"\(anonymous namespace\)::", "", name))


def exempt(kernels):
    """How many of the kernels may break any rule, for the report; nothing where there are none."""
    found = (rules.contract_of(kernel) for kernel in kernels)
    count = sum(contract is not None and contract.on_purpose for contract in found)
    return f" ({count} of the kernels are ablations, which keep no rule)" if count else ""


def report(instructions, kind):
    """Prints what was seen per target and every violation; returns the number of violations."""
    float_pattern = rules.PTX_FLOAT if kind == "ptx" else rules.SASS_FLOAT
    integer_product = rules.PTX_INTEGER_PRODUCT if kind == "ptx" else rules.SASS_INTEGER_PRODUCT
    kernels, fmas, products, violations = collections.defaultdict(set), collections.Counter(), collections.Counter(), []
    for found in instructions:
        new = found.kernel not in kernels[found.target]
        kernels[found.target].add(found.kernel)
        contract = rules.contract_of(found.kernel)
        if contract is None:
            if new:
                violations.append((found, "the kernel belongs to no contract of any audit_rules.py"))
            continue
        allowed = getattr(contract, kind)
        fmas[found.target] += re.match(allowed.fma, found.text) is not None
        products[found.target] += re.match(integer_product, found.text) is not None
        if reason := rules.violation(allowed, float_pattern, found.text):
            violations.append((found, reason))
    if not kernels:
        raise CannotCheck("no GPU code was found")
    for target in sorted(kernels, key=lambda name: int(re.sub(r"\D", "", name) or 0)):
        bad = sum(found.target == target for found, _ in violations)
        print(f"{target:12} {len(kernels[target]):4} kernels {fmas[target]:7} fused multiply-adds "
              f"{products[target]:6} integer matrix products {bad:4} violations{exempt(kernels[target])}")
    for found, reason in violations:
        print(f"{found.target} {readable(found.kernel)} line {found.line}: {found.text}\n    {reason}")
    return len(violations)


def with_includes(source, include_folders, seen=frozenset()):
    """The source and the project's headers that it includes, at any depth."""
    seen = seen | {source}
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', source.read_text(), re.MULTILINE):
        candidates = (folder / name for folder in (source.parent, *include_folders))
        header = next((path.resolve() for path in candidates if path.exists()), None)
        if header and header not in seen:
            seen = with_includes(header, include_folders, seen)
    return seen


def lacking_architectures(source, architectures, wanted):
    """Those that a source should be compiled for and is not. Ablations, which keep no rule, need not run natively
    everywhere; a source for one feature set (90a) has a sibling that serves the other GPUs."""
    is_for_one_feature_set = all(architecture.endswith("a") for architecture in architectures)
    if "ablation" in source.parent.parts or is_for_one_feature_set:
        return []
    return sorted({f"compute_{number}" for number in wanted} - set(architectures))


def kept_ptx(build, wanted):
    """The PTX files that the build kept, one per .cu and architecture; each must be newer than all it was made from."""
    database = build / "compile_commands.json"
    if not database.exists():
        raise CannotCheck(f"{database} does not exist; configure the build first")
    sources = {}
    for entry in json.loads(database.read_text()):
        source, command = pathlib.Path(entry["file"]), entry["command"]
        if source.suffix != ".cu":
            continue
        folder = re.search(r"--keep-dir[= ](\S+)", command)
        architectures = sorted(set(re.findall(r"arch=(compute_\w+)", command)))
        if not folder or not architectures:
            raise CannotCheck(f"{source} is compiled without --keep-dir or --generate-code")
        if lacking := lacking_architectures(source, architectures, wanted):
            raise CannotCheck(f"{source} is not compiled for {', '.join(lacking)}")
        include_folders = [pathlib.Path(folder) for folder in re.findall(r"(?:-I|-isystem[= ])(\S+)", command)]
        newest = max(with_includes(source, include_folders), key=lambda path: path.stat().st_mtime)
        for architecture in architectures:
            # nvcc names the architecture in the file only where there are several.
            infix = f".{architecture}" if len(architectures) > 1 else ""
            path = pathlib.Path(entry["directory"]) / folder.group(1) / f"{source.stem}{infix}.ptx"
            if sources.setdefault(path, source) != source:
                raise CannotCheck(f"{source} and {sources[path]} have one stem: the PTX of one overwrites the other's")
            if not path.exists() or path.stat().st_mtime < newest.stat().st_mtime:
                raise CannotCheck(f"{path} is missing or older than {newest}; build first")
            yield path, architecture


def audit_ptx(build, wanted):
    files = list(kept_ptx(build, wanted))
    if not files:
        raise CannotCheck(f"{build} compiles no CUDA source")
    return report((found for path, target in files for found in read_ptx(path.read_text(), target)), "ptx")


def audit_sass(binaries):
    tool = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
    if not tool:
        raise CannotCheck("cuobjdump was not found; it is part of the CUDA toolkit")
    found = []
    for binary in binaries:
        done = subprocess.run([tool, "--dump-sass", binary], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotCheck(f"cuobjdump {binary}: {done.stderr.strip()}")
        found += read_sass(done.stdout)
    return report(found, "sass")


def audit_text(files):
    violations = 0
    for name in files:
        text = pathlib.Path(name).read_text()
        if name.endswith(".sass"):
            violations += report(read_sass(text), "sass")
        else:
            target = re.search(r"^\.target (\w+)", text, re.MULTILINE)
            violations += report(read_ptx(text, target.group(1) if target else "sm_?"), "ptx")
    return violations


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    ptx = modes.add_parser("ptx")
    ptx.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    ptx.add_argument("--architectures", default=",".join(ARCHITECTURES))
    modes.add_parser("sass").add_argument("binaries", nargs="+")
    modes.add_parser("text").add_argument("files", nargs="+")
    args = parser.parse_args(arguments)
    try:
        if args.mode == "ptx":
            violations = audit_ptx(args.build, args.architectures.split(","))
        elif args.mode == "sass":
            violations = audit_sass(args.binaries)
        else:
            violations = audit_text(args.files)
    except CannotCheck as reason:
        print(f"could not check: {reason}", file=sys.stderr)
        return 2
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
