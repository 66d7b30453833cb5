"""Negative controls of tools/audit_gpu_code.py: each planted violation must be caught, allowed code must pass."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
import audit_gpu_code  # noqa: E402  (where it is, is known only now)

from planted_instructions import (ABLATION, ALLOWED_IN_ABLATIONS, ALLOWED_IN_OPS, IN_EXACT1, OPS, PLANTED,
                                  PLANTED_IN_EXACT1, PLACED, PLANTED_IN_OPS)

SKIPPED = 77
ARCHITECTURES = ("80", "90", "90a", "100", "120")


def audit(*arguments):
    """The exit status of the tool and all that it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        code = audit_gpu_code.main([*map(str, arguments)])
    return code, printed.getvalue()


def planted_text(suffix, instruction, namespace, stem):
    """The file with the instruction as the last but one of its kernel, which stands in the namespace."""
    clean = re.sub("4fma1|6exact1", namespace, (HERE / f"{stem}{suffix}").read_text())
    if suffix == ".ptx":
        return clean.replace("\tret;", f"\t{instruction}\n\tret;", 1)
    return re.sub(r"(.*/[*]\w+[*]/\s+EXIT)", rf"        /*ff00*/                   {instruction} ;\n\1", clean, count=1)


def allowed_code_passes(_):
    for stem, products in (("clean", "0 integer"), ("clean_exact1", "2 integer")):
        for suffix in PLANTED:
            code, output = audit("text", HERE / f"{stem}{suffix}")
            if code != 0:
                yield f"{stem}{suffix}: exit status {code}\n{output}"
            if "1 kernels" not in output or products not in output:
                yield f"{stem}{suffix}: its kernel was not seen, or not all of it\n{output}"
    code, output = audit("text", "/dev/null")
    if code != 2:
        yield f"an empty file passed: exit status {code}\n{output}"


def cases(suffix):
    """Instruction, the namespace and the file it is put into, and the reason to be given; none: it must pass."""
    for instruction, reason in PLANTED[suffix]:
        yield instruction, "4fma1", "clean", reason
    for instruction, reason in PLANTED_IN_EXACT1[suffix]:
        for place in IN_EXACT1:
            yield instruction, place, "clean_exact1", reason
    for instruction, reason in PLANTED_IN_OPS[suffix]:
        yield instruction, OPS, "clean", reason
    for instruction, place, reason in PLACED[suffix]:
        yield instruction, place, "clean", reason
    for instruction in ALLOWED_IN_OPS[suffix]:
        yield instruction, OPS, "clean", ""
    for instruction in ALLOWED_IN_ABLATIONS[suffix]:
        yield instruction, ABLATION, "clean", ""


def planted_violations_are_caught(_):
    with tempfile.TemporaryDirectory() as folder:
        for suffix in PLANTED:
            path = pathlib.Path(folder) / f"planted{suffix}"
            for instruction, namespace, stem, reason in cases(suffix):
                path.write_text(planted_text(suffix, instruction, namespace, stem))
                code, output = audit("text", path)
                violations = 1 if reason else 0
                if code != violations or reason not in output or f"   {violations} violations" not in output:
                    yield f"{instruction} in {namespace}: exit status {code}, expected '{reason}'\n{output}"
            path.write_text((HERE / f"clean{suffix}").read_text().replace("4fma1", ABLATION))
            if "1 of the kernels are ablations" not in audit("text", path)[1]:
                yield f"an ablation was not counted as one\n{audit('text', path)[1]}"
            if "ablations" in audit("text", HERE / f"clean{suffix}")[1]:
                yield f"clean{suffix} was counted as an ablation"
            path.write_text((HERE / f"clean{suffix}").read_text().replace("4fma1", "4fma2"))
            code, output = audit("text", path)
            if code != 1 or "belongs to no contract" not in output:
                yield f"a kernel of no contract passed: exit status {code}\n{output}"


def stale_ptx_is_refused(_):
    """A build in small, whose kernel stands in a header that a header includes, for every architecture."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        headers = folder / "include"
        headers.mkdir()
        source, header, kernel = folder / "sample.cu", headers / "sample.hpp", headers / "sample.cuh"
        source.write_text('#include "sample.hpp"\n#include <cstdint>\n')
        header.write_text('#pragma once\n#include "sample.cuh"\n')
        kernel.write_text("#pragma once\n")
        kept = [folder / f"sample.compute_{number}.ptx" for number in ARCHITECTURES]
        for path in kept:
            path.write_text((HERE / "clean.ptx").read_text())
        targets = [f"--generate-code=arch=compute_{n},code=[sm_{n}]" for n in ARCHITECTURES]
        command = ["nvcc", f"-I{headers}", f"--keep-dir={folder}", *targets, "-c", str(source)]
        entry = {"directory": name, "file": str(source), "command": shlex.join(command)}
        (folder / "compile_commands.json").write_text(json.dumps([entry]))
        for path in (source, header, kernel):
            os.utime(path, (1000, 1000))
        code, output = audit("ptx", "--build", folder)
        if code != 0:
            yield f"fresh PTX was refused: exit status {code}\n{output}"
        if not re.search(r"^compute_90a +1 kernels", output, re.MULTILINE):
            yield f"the code for 90a was not read\n{output}"
        for path in (source, header, kernel):
            newer = kept[-1].stat().st_mtime + 10
            os.utime(path, (newer, newer))
            code, output = audit("ptx", "--build", folder)
            if code != 2 or f"older than {path}" not in output:
                yield f"PTX older than {path.name} passed: exit status {code}\n{output}"
            os.utime(path, (1000, 1000))


def missing_architectures_are_refused(_):
    """A contract's kernel must be there for every GPU; an ablation need not, and code for 90a has a sibling."""
    clean = (HERE / "clean.ptx").read_text()
    for kind, architectures, refused in (("cuda", ("80", "90"), True), ("cuda", ("90a", "120a"), False),
                                         ("ablation/kernels", ("80", "90"), False), ("cuda", ARCHITECTURES, False)):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / kind
            folder.mkdir(parents=True)
            source = folder / "sample.cu"
            source.write_text("")
            os.utime(source, (1000, 1000))
            for number in architectures:
                (folder / f"sample.compute_{number}.ptx").write_text(clean)
            targets = [f"--generate-code=arch=compute_{n},code=[sm_{n}]" for n in architectures]
            command = ["nvcc", f"--keep-dir={folder}", *targets, "-c", str(source)]
            entry = {"directory": name, "file": str(source), "command": shlex.join(command)}
            (folder / "compile_commands.json").write_text(json.dumps([entry]))
            code, output = audit("ptx", "--build", folder)
            few, output_for_few = audit("ptx", "--build", folder, "--architectures", "80,90")
        if few != 0:
            yield f"{kind} for {architectures} is no whole build of 80 and 90: exit status {few}\n{output_for_few}"
        was_refused = code == 2 and "is not compiled for compute_100, compute_120" in output
        if was_refused != refused or (not refused and code != 0):
            yield f"{kind} for {architectures}: exit status {code}\n{output}"


def equal_stems_are_refused(_):
    """Their PTX would be one file: one of the two would never be read. A source in two targets is no such pair."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "sample.ptx").write_text((HERE / "clean.ptx").read_text())
        entries = []
        for kind in ("one", "other"):
            source = folder / kind / "sample.cu"
            source.parent.mkdir()
            source.write_text("")
            os.utime(source, (1000, 1000))
            command = ["nvcc", f"--keep-dir={folder}", "--generate-code=arch=compute_90a,code=[sm_90a]", "-c", str(source)]
            entries.append({"directory": name, "file": str(source), "command": shlex.join(command)})
        for pair, refused in (((0, 0), False), ((0, 1), True)):
            (folder / "compile_commands.json").write_text(json.dumps([entries[i] for i in pair]))
            code, output = audit("ptx", "--build", folder)
            if code != (2 if refused else 0) or ("have one stem" in output) != refused:
                yield f"sources {pair}: exit status {code}\n{output}"


def compilation(nvcc, folder, source, architectures):
    targets = [f"--generate-code=arch=compute_{n},code=[sm_{n}]" for n in architectures]
    return [nvcc, "--fmad=false", "-std=c++20", "--keep", f"--keep-dir={folder}", *targets, "-c", str(source), "-o",
            f"{folder}/{source.stem}.o"]


def nvcc_output_is_read(nvcc):
    """One source for all architectures, and one for sm_90a alone, whose PTX nvcc names in another way."""
    if not nvcc:
        print("skipped: the build has no CUDA")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        sources = {HERE / "planted.cu": ARCHITECTURES, HERE / "planted_exact1.cu": ("90a",)}
        commands = {source: compilation(nvcc, folder, source, targets) for source, targets in sources.items()}
        entries = [{"directory": folder, "file": str(source), "command": shlex.join(command)}
                   for source, command in commands.items()]
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(entries))
        code, output = audit("ptx", "--build", folder)
        if code != 2 or "build first" not in output:
            yield f"PTX that was never made passed: exit status {code}\n{output}"
        for command in commands.values():
            subprocess.run(command, check=True)
        code, output = audit("ptx", "--build", folder)
    if code != 1:
        yield f"exit status {code}, expected 1\n{output}"
    for name in ("product", "flush", "atomic", "approximation", "tensor_core", "integer_tensor_core", "outsider"):
        if output.count(f"::planted_{name} ") + output.count(f" planted_{name} ") < len(ARCHITECTURES):
            yield f"planted_{name} was not caught for each of the {len(ARCHITECTURES)} architectures\n{output}"
    for name in ("float_tensor_core", "after_a_block"):
        if output.count(f"::exact1::planted_{name} ") != 1:
            yield f"planted_{name} was not caught once\n{output}"
    if "allowed" in output:
        yield f"an allowed kernel was called a violation\n{output}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="")
    suites = {"AllowedCodePasses": allowed_code_passes, "PlantedViolationsAreCaught": planted_violations_are_caught,
              "StalePtxIsRefused": stale_ptx_is_refused,
              "MissingArchitecturesAreRefused": missing_architectures_are_refused,
              "EqualStemsAreRefused": equal_stems_are_refused,
              "NvccOutputIsRead": nvcc_output_is_read}
    parser.add_argument("suite", choices=suites)
    args = parser.parse_args()
    failures = list(suites[args.suite](args.nvcc))
    print("\n".join(failures) or "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
