"""Negative controls of tools/audit_gpu_code.py: each planted violation must be caught, allowed code must pass."""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
AUDIT = HERE.parent.parent / "tools" / "audit_gpu_code.py"
SKIPPED = 77
ARCHITECTURES = (80, 86, 89, 90, 100, 120)

# An instruction that is put into clean.ptx or clean.sass, and the reason that must be given.
PLANTED = {
    ".ptx": (
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1;", "tensor cores"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, p;", "tensor cores"),
        ("add.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("fma.rn.ftz.f32 %f1, %f2, %f3, %f4;", "flushes subnormals"),
        ("@%p1 ex2.approx.f32 %f1, %f2;", "approximation"),
        ("div.full.f32 %f1, %f2, %f3;", "approximation"),
        ("rsqrt.approx.f32 %f1, %f2;", "approximation"),
        ("atom.global.add.f32 %f1, [%rd1], %f2;", "atomic"),
        ("red.global.add.f32 [%rd1], %f2;", "atomic"),
        ("@!%p1 red.relaxed.gpu.global.add.noftz.bf16x2 [%rd1], %r2;", "atomic"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 16;", "atomic"),
        ("mul.f32 %f1, %f2, %f3;", "product outside"),
        ("{ mul.rn.f32 %f1, %f2, %f3; }", "product outside"),
        ("mul.rn.f32x2 %rd1, %rd2, %rd3;", "product outside"),
        ("mul.f64 %fd1, %fd2, %fd3;", "product outside"),
        ("mul.bf16x2 %r1, %r2, %r3;", "product outside"),
        ("mad.rn.f32 %f1, %f2, %f3, %f4;", "product outside"),
        ("fma.rz.f32 %f1, %f2, %f3, %f4;", "not among"),
        ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", "not among"),
        ("fma.rn.f64 %fd1, %fd2, %fd3, %fd4;", "not among"),
        ("add.rz.f32 %f1, %f2, %f3;", "not among"),
        ("cvt.rn.bf16.f32 %rs1, %f1;", "not among"),
    ),
    ".sass": (
        ("HMMA.16816.F32.BF16 R4, R4, R8, R4", "tensor cores"),
        ("HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], RZ", "tensor cores"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11]", "tensor cores"),
        ("FADD.FTZ R1, R2, R3", "flushes subnormals"),
        ("FFMA.FTZ R1, R2, R3, R4", "flushes subnormals"),
        ("@P0 MUFU.EX2 R1, R2", "special function unit"),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2.64], R4", "flushes subnormals"),
        ("REDG.E.ADD.F32.RN.STRONG.GPU desc[UR4][R2.64], R4", "atomic"),
        ("ATOMS.ADD.F16x2.RN R1, [R2], R3", "atomic"),
        ("FMUL R1, R2, R3", "product outside"),
        ("FMUL2 R2, R4.F32x2.HI_LO, R6.F32x2.HI_LO", "product outside"),
        ("DMUL R2, R4, R6", "product outside"),
        ("HMUL2.BF16_V2 R1, R2, R3", "product outside"),
        ("FFMA.RZ R1, R2, R3, R4", "round to nearest"),
        ("FADD.RZ R1, R2, R3", "round to nearest"),
        ("FADD.RM R1, R2, R3", "round to nearest"),
        ("FADD2.RZ R2, R4.F32x2.HI_LO, R6.F32x2.HI_LO", "round to nearest"),
        ("FADD.SAT R1, R2, R3", "clamps its result"),
        ("FFMA.SAT R1, R2, R3, R4", "clamps its result"),
        ("HFMA2 R1, R2, R3, R4", "not among"),
        ("HADD2 R1, R2, R3", "not among"),
        ("DFMA R2, R4, R6, R8", "not among"),
        ("F2FP.BF16.F32.PACK_AB R1, R2, R3", "not among"),
    ),
}

# The same for the operations beside the linear layer, which are made of more: what passes there, and what does not.
ALLOWED_IN_OPS = {
    ".ptx": ("mul.rn.f32 %f1, %f2, %f3;", "div.rn.f32 %f1, %f2, %f3;", "sqrt.rn.f32 %f1, %f2;",
             "max.f32 %f1, %f2, %f3;", "sub.rn.f32 %f1, %f2, %f3;", "cvt.rn.f32.s32 %f1, %r1;"),
    ".sass": ("FMUL R1, R2, R3", "MUFU.RCP R1, R2", "MUFU.RSQ R1, R2", "FCHK P0, R1, R2", "FMUL.FTZ R1, R2, R3",
              "FFMA.RP R1, R2, R3, R4", "FMNMX R1, R2, R3, PT", "I2FP.F32.S32 R1, R2"),
}
PLANTED_IN_OPS = {
    ".ptx": (
        ("ex2.approx.f32 %f1, %f2;", "approximation"),
        ("div.full.f32 %f1, %f2, %f3;", "approximation"),
        ("sqrt.approx.f32 %f1, %f2;", "approximation"),
        ("mul.ftz.f32 %f1, %f2, %f3;", "flushes subnormals"),
        ("red.global.add.f32 [%rd1], %f2;", "atomic"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "tensor cores"),
        ("mul.f64 %fd1, %fd2, %fd3;", "not among"),
        ("mad.rn.f32 %f1, %f2, %f3, %f4;", "not among"),
        ("div.rz.f32 %f1, %f2, %f3;", "not among"),
        ("cvt.rn.bf16.f32 %rs1, %f1;", "not among"),
    ),
    ".sass": (
        ("MUFU.EX2 R1, R2", "special function unit"),
        ("MUFU.LG2 R1, R2", "special function unit"),
        ("MUFU.SIN R1, R2", "special function unit"),
        ("FADD.SAT R1, R2, R3", "clamps its result"),
        ("REDG.E.ADD.F32.RN.STRONG.GPU desc[UR4][R2.64], R4", "atomic"),
        ("HMMA.16816.F32.BF16 R4, R4, R8, R4", "tensor cores"),
        ("DMUL R2, R4, R6", "not among"),
        ("HMUL2.BF16_V2 R1, R2, R3", "not among"),
    ),
}

# The sampler's own conversions, where they belong and where they do not. clean.* stands in a namespace of this name.
OPS, SAMPLER = "4fma13ops", "4fma141_GLOBAL__N__1a1404c9_9_sample_cu_532067f011sample_rows"
SAMPLER_CASES = {
    ".ptx": (
        ("cvt.rzi.s64.f32 %rd1, %f1;", SAMPLER, ""),
        ("cvt.rn.f32.u64 %f1, %rd1;", SAMPLER, ""),
        ("div.rn.f32 %f1, %f2, %f3;", SAMPLER, ""),
        ("cvt.rni.s64.f32 %rd1, %f1;", SAMPLER, "not among"),
        ("cvt.rz.f32.u64 %f1, %rd1;", SAMPLER, "not among"),
        ("lg2.approx.f32 %f1, %f2;", SAMPLER, "approximation"),
        ("red.global.add.f32 [%rd1], %f2;", SAMPLER, "atomic"),
        ("cvt.rzi.s64.f32 %rd1, %f1;", OPS, "not among"),
    ),
    ".sass": (
        ("F2I.S64.TRUNC R2, R1", SAMPLER, ""),
        ("MUFU.LG2 R1, R2", SAMPLER, "special function unit"),
        ("F2I.S64 R2, R1", SAMPLER, "not among"),
        ("F2I.S64.TRUNC R2, R1", OPS, "not among"),
    ),
}


def audit(*arguments):
    done = subprocess.run([sys.executable, AUDIT, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def planted_text(suffix, instruction, namespace="4fma1"):
    """clean.* with the instruction as the first of its kernel, which stands in the namespace."""
    clean = (HERE / f"clean{suffix}").read_text().replace("4fma1", namespace)
    if suffix == ".ptx":
        return clean.replace("\tld.param.u64", f"\t{instruction}\n\tld.param.u64", 1)
    return clean.replace("        /*0010*/", f"        /*0008*/                   {instruction} ;\n        /*0010*/", 1)


def allowed_code_passes(_):
    for suffix in PLANTED:
        code, output = audit("text", HERE / f"clean{suffix}")
        if code != 0:
            yield f"clean{suffix}: exit status {code}\n{output}"
        if "1 kernels" not in output:
            yield f"clean{suffix}: its kernel was not seen\n{output}"
    code, output = audit("text", "/dev/null")
    if code != 2:
        yield f"an empty file passed: exit status {code}\n{output}"


def planted_violations_are_caught(_):
    with tempfile.TemporaryDirectory() as folder:
        for suffix, cases in PLANTED.items():
            path = pathlib.Path(folder) / f"planted{suffix}"
            for instruction, reason in cases:
                path.write_text(planted_text(suffix, instruction))
                code, output = audit("text", path)
                if code != 1 or reason not in output or "   1 violations" not in output:
                    yield f"{instruction}: exit status {code}, expected 1 and '{reason}'\n{output}"
            for instruction in ALLOWED_IN_OPS[suffix]:
                path.write_text(planted_text(suffix, instruction, OPS))
                code, output = audit("text", path)
                if code != 0:
                    yield f"{instruction} in an operation: exit status {code}\n{output}"
            for instruction, reason in PLANTED_IN_OPS[suffix]:
                path.write_text(planted_text(suffix, instruction, OPS))
                code, output = audit("text", path)
                if code != 1 or reason not in output or "   1 violations" not in output:
                    yield f"{instruction} in an operation: exit status {code}, expected 1 and '{reason}'\n{output}"
            for instruction, place, reason in SAMPLER_CASES[suffix]:
                path.write_text(planted_text(suffix, instruction, place))
                code, output = audit("text", path)
                if code != (1 if reason else 0) or reason not in output:
                    yield f"{instruction} in {place}: exit status {code}, expected '{reason}'\n{output}"
            path.write_text((HERE / f"clean{suffix}").read_text().replace("4fma1", "4fma2"))
            code, output = audit("text", path)
            if code != 1 or "belongs to no contract" not in output:
                yield f"a kernel of no contract passed: exit status {code}\n{output}"


def stale_ptx_is_refused(_):
    """A build in small, whose kernel stands in a header that a header includes."""
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
        for path in (source, header, kernel):
            newer = kept[-1].stat().st_mtime + 10
            os.utime(path, (newer, newer))
            code, output = audit("ptx", "--build", folder)
            if code != 2 or f"older than {path}" not in output:
                yield f"PTX older than {path.name} passed: exit status {code}\n{output}"
            os.utime(path, (1000, 1000))


def nvcc_output_is_read(nvcc):
    if not nvcc:
        print("skipped: the build has no CUDA")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        targets = [f"--generate-code=arch=compute_{n},code=[sm_{n}]" for n in ARCHITECTURES]
        command = [nvcc, "--fmad=false", "-std=c++20", "--keep", f"--keep-dir={folder}", *targets, "-c",
                   str(HERE / "planted.cu"), "-o", f"{folder}/planted.o"]
        entry = {"directory": folder, "file": str(HERE / "planted.cu"), "command": shlex.join(command)}
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps([entry]))
        code, output = audit("ptx", "--build", folder)
        if code != 2 or "build first" not in output:
            yield f"PTX that was never made passed: exit status {code}\n{output}"
        subprocess.run(command, check=True)
        code, output = audit("ptx", "--build", folder)
    if code != 1:
        yield f"exit status {code}, expected 1\n{output}"
    for name in ("product", "flush", "atomic", "approximation", "tensor_core", "outsider"):
        if output.count(f"planted_{name}") < 6:
            yield f"planted_{name} was not caught for each of the 6 architectures\n{output}"
    if "allowed" in output:
        yield f"the allowed kernel was called a violation\n{output}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="")
    suites = {"AllowedCodePasses": allowed_code_passes, "PlantedViolationsAreCaught": planted_violations_are_caught,
              "StalePtxIsRefused": stale_ptx_is_refused, "NvccOutputIsRead": nvcc_output_is_read}
    parser.add_argument("suite", choices=suites)
    args = parser.parse_args()
    failures = list(suites[args.suite](args.nvcc))
    print("\n".join(failures) or "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
