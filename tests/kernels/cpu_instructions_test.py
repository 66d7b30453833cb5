#!/usr/bin/env python3
"""The CPU kernels are what their names say: their only floating-point arithmetic is fused multiply-adds and additions,
in registers of the target's width. F16 kernels may multiply too: they rescale a weight's exponent, which is exact.
So may attention, whose scores and merges have products of their own.

Usage: cpu_instructions_test.py OBJDUMP LIBRARY
"""
import dataclasses
import re
import subprocess
import sys


@dataclasses.dataclass(frozen=True)
class Family:
    """The kernels of one target. Patterns match an instruction from its start, operands included."""

    functions: str  # searched in a function's name
    fused_in: str  # those of them that must hold fused multiply-adds
    fewest: int  # how many of these there must be
    fused: str
    add: str
    product: str
    product_in: str = "::F16Pair"  # those that may hold products

    def allows(self, name, instruction):
        patterns = (self.fused, self.add, *((self.product,) if self.product_in in name else ()))
        return any(re.match(pattern, instruction) for pattern in patterns)


@dataclasses.dataclass(frozen=True)
class Machine:
    float_code: str  # every instruction that touches floating point
    moves: str  # of which these compute nothing
    families: dict
    planted: tuple  # (family, searched in the function's name, instruction, whether it is allowed there)


SCALAR = r"cpu::\(anonymous namespace\)::(?:chain_rows|widen_panel|segment)"
TILES = 15  # at least five numbers of rows, in three weight types
ATTENTION = r"::(?:score_keys|sum_values)<(?!.*Simd<float, 1ul)"  # but for the single elements at the end of a head
ATTENTION_TILES = 12  # scores, whole strips and single vectors, for two numbers of lines, in two types of cache


def x86_tiles(target, register):
    return Family(rf"{target}::segment_tile<", "", TILES, rf"vfmadd(?:132|213|231)ps .*{register}",
                  rf"vaddps .*{register}", rf"vmulps .*{register}")


def x86_attention(target, register):
    return dataclasses.replace(x86_tiles(target, register), functions=target + ATTENTION, fewest=ATTENTION_TILES,
                               product_in="")


X86 = Machine(
    # Names of float instructions end in ss, ps and so on; those of integer ones that do begin with p.
    float_code=r"(?!v?p)[a-z]\w*[sp][sdh]\s|v?cvt|f",
    moves=r"v?(?:mov\w+|(?:xor|and|andn|or)[ps][sd]|(?:broadcast|insert|extract|shuf|unpck|blend)\w+)\s",
    families={
        "avx2": x86_tiles("N_AVX2", "%ymm"),
        "avx512": x86_tiles("N_AVX3", "%zmm"),
        "avx2 attention": x86_attention("N_AVX2", "%ymm"),
        "avx512 attention": x86_attention("N_AVX3", "%zmm"),
        "scalar": Family(SCALAR, r"::chain_rows_fma\(", 1, r"vfmadd(?:132|213|231)ss ", r"v?addss ", r"v?mulss "),
    },
    planted=(
        ("avx2", "::Bf16Pair", "vmulps %ymm1,%ymm2,%ymm3", False),
        ("avx2", "::Bf16Pair", "vmulss %xmm1,%xmm2,%xmm3", False),
        ("avx2", "::F32Word", "vsubps %ymm1,%ymm2,%ymm3", False),
        ("avx2", "::F32Word", "vfmadd231ps %xmm1,%xmm2,%xmm3", False),
        ("avx2", "::F32Word", "vfmadd231ps %zmm1,%zmm2,%zmm3", False),
        ("avx2", "::F16Pair", "vmulps %ymm1,%ymm2,%ymm3", True),
        ("avx2", "::F16Pair", "vmulss %xmm1,%xmm2,%xmm3", False),
        ("avx512", "::Bf16Pair", "vdpbf16ps %zmm1,%zmm2,%zmm3", False),
        ("avx512", "::F16Pair", "vdivps %zmm1,%zmm2,%zmm3", False),
        ("avx512", "::F16Pair", "vfmadd231ph %zmm1,%zmm2,%zmm3", False),
        ("avx512", "::F32Word", "vfmadd231ps %ymm1,%ymm2,%ymm3", False),
        ("avx512", "::F32Word", "vrcp14ps %zmm1,%zmm2", False),
        ("avx512", "::F32Word", "vcvtps2pd %ymm1,%zmm2", False),
        ("avx2 attention", "::score_keys<", "vmulps %ymm1,%ymm2,%ymm3", True),
        ("avx2 attention", "::sum_values<", "vfmadd231ps %xmm1,%xmm2,%xmm3", False),
        ("avx2 attention", "::sum_values<", "vdivps %ymm1,%ymm2,%ymm3", False),
        ("avx512 attention", "::score_keys<", "vdpbf16ps %zmm1,%zmm2,%zmm3", False),
        ("avx512 attention", "::score_keys<", "vmulps %ymm1,%ymm2,%ymm3", False),
        ("avx512 attention", "::sum_values<", "vrcp14ps %zmm1,%zmm2", False),
        ("scalar", "::chain_rows_fma(", "vmulss %xmm1,%xmm2,%xmm3", False),
        ("scalar", "::chain_rows_fma(", "vfmadd231ps %ymm1,%ymm2,%ymm3", False),
        ("scalar", "::chain_rows_generic(", "mulss %xmm1,%xmm2", False),
        ("scalar", "::chain_rows_generic(", "fmulp %st,%st(1)", False),
        ("scalar", "::F16Pair", "divss %xmm1,%xmm2", False),
        ("scalar", "::F16Pair", "mulss %xmm1,%xmm2", True),
        ("scalar", "::Bf16Pair", "mulss %xmm1,%xmm2", False),
    ),
)

AARCH64 = Machine(
    float_code=r"f|[su]cvtf|bf(?:mla|mml|dot|cvt)",
    moves=r"f(?:mov|csel)\s",
    families={
        "neon": Family(r"N_NEON::segment_tile<", "", TILES, r"fmla\s+v\d+\.4s", r"fadd\s+v\d+\.4s", r"fmul\s+v\d+\.4s"),
        "neon attention": Family("N_NEON" + ATTENTION, "", ATTENTION_TILES, r"fmla\s+v\d+\.4s", r"fadd\s+v\d+\.4s",
                                 r"fmul\s+v\d+\.4s", ""),
        "scalar": Family(SCALAR, r"::chain_rows_generic\(", 1, r"fmadd\s+s", r"fadd\s+s", r"fmul\s+s"),
    },
    planted=(
        ("neon attention", "::score_keys<", "fmul\tv1.4s, v2.4s, v3.4s", True),
        ("neon attention", "::sum_values<", "fdiv\tv1.4s, v2.4s, v3.4s", False),
        ("neon", "::Bf16Pair", "fmul\tv1.4s, v2.4s, v3.4s", False),
        ("neon", "::F16Pair", "fmul\tv1.4s, v2.4s, v3.4s", True),
        ("neon", "::F16Pair", "fmul\ts1, s2, s3", False),
        ("neon", "::F32Word", "fmla\tz1.s, p0/m, z2.s, z3.s", False),
        ("neon", "::F32Word", "fdiv\tv1.4s, v2.4s, v3.4s", False),
        ("neon", "::F32Word", "bfmlalb\tv1.4s, v2.8h, v3.8h", False),
        ("scalar", "::chain_rows_generic(", "fmul\ts1, s2, s3", False),
        ("scalar", "::chain_rows_generic(", "fmla\tv1.4s, v2.4s, v3.4s", False),
        ("scalar", "::F16Pair", "fdiv\ts1, s2, s3", False),
        ("scalar", "::F16Pair", "fmul\ts1, s2, s3", True),
        ("scalar", "::Bf16Pair", "fmul\ts1, s2, s3", False),
    ),
)


def disassemble(objdump, library):
    command = [objdump, "--disassemble", "--no-show-raw-insn", "--demangle", library]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def kernels_of(text, machine):
    """(family, name, instructions) of every function that belongs to a family, with what was split off as cold."""
    kernels = {}
    for part in re.split(r"\n(?=[0-9a-f]+ <)", text):
        header = re.match(r"[0-9a-f]+ <(.*?)(?: \[clone \.cold\])?>:\n", part)
        for family, rule in machine.families.items():
            if header and re.search(rule.functions, header.group(1)):
                instructions = re.findall(r"^\s+[0-9a-f]+:\t(.*?)\s*$", part, re.MULTILINE)
                kernels.setdefault((family, header.group(1)), []).extend(instructions)
    return [(family, name, instructions) for (family, name), instructions in kernels.items()]


def faults(kernels, machine):
    """Lists what is wrong."""
    found = []
    counts = dict.fromkeys(machine.families, 0)
    for family, name, instructions in kernels:
        rule = machine.families[family]
        for instruction in instructions:
            computes = re.match(machine.float_code, instruction) and not re.match(machine.moves, instruction)
            if computes and not rule.allows(name, instruction):
                found.append(f"{name}: not allowed: {instruction}")
        if re.search(rule.fused_in, name):
            counts[family] += 1
            if not any(re.match(rule.fused, instruction) for instruction in instructions):
                found.append(f"{name}: no fused multiply-add")
    return found + [f"{family}: kernels are missing" for family, rule in machine.families.items()
                    if counts[family] < rule.fewest]


def control_faults(kernels, machine):
    """What faults() does not notice: each rule is broken once, and nothing else with it."""
    for family, place, instruction, allowed in machine.planted:
        at = next((i for i, kernel in enumerate(kernels) if kernel[0] == family and place in kernel[1]), None)
        if at is None:
            yield f"control: there is no {family} kernel '{place}' to plant {instruction} in"
            continue
        _, name, instructions = kernels[at]
        found = faults([*kernels[:at], (family, name, [instruction, *instructions]), *kernels[at + 1:]], machine)
        if found != ([] if allowed else [f"{name}: not allowed: {instruction}"]):
            yield f"control: {instruction} planted in {name} gave {found}"
    for family, rule in machine.families.items():
        unfused = [(owner, name, [i for i in instructions if owner != family or not re.match(rule.fused, i)])
                   for owner, name, instructions in kernels]
        expected = [f"{name}: no fused multiply-add" for owner, name, _ in kernels
                    if owner == family and re.search(rule.fused_in, name)]
        if faults(unfused, machine) != expected:
            yield f"control: {family} kernels without a fused multiply-add gave {faults(unfused, machine)}"
        if faults([kernel for kernel in kernels if kernel[0] != family], machine) != [f"{family}: kernels are missing"]:
            yield f"control: a library without {family} kernels passed"


def main():
    text = disassemble(*sys.argv[1:3])
    machine = X86 if "%xmm" in text else AARCH64
    kernels = kernels_of(text, machine)
    found = faults(kernels, machine) or list(control_faults(kernels, machine))
    counts = {family: sum(kernel[0] == family for kernel in kernels) for family in machine.families}
    print("\n".join(found) or f"functions checked: {counts}; controls: {len(machine.planted)} planted instructions")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
