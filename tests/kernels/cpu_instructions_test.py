#!/usr/bin/env python3
"""The CPU kernels are what their names say: registers of the target's width, and every product fused.

Usage: cpu_instructions_test.py OBJDUMP LIBRARY
"""
import re
import subprocess
import sys

# Per target: the registers its kernels use, wider ones that they must not, and the fused multiply-add. A product outside
# one is allowed in F16 kernels alone, where it rescales an exponent exactly.
TARGETS = {
    "N_AVX2": {"uses": r"%ymm", "wider": r"%zmm", "fused": r"vfn?madd\w*ps", "product": r"vmulps"},
    "N_AVX3": {"uses": r"%zmm", "wider": None, "fused": r"vfn?madd\w*ps", "product": r"vmulps"},
    "N_NEON": {"uses": r"v\d+\.4s", "wider": r"\bz\d+\.s", "fused": r"fmla", "product": r"fmul"},
}
FEWEST_KERNELS = 15  # at least five numbers of rows, in three weight types


def disassemble(objdump, library):
    command = [objdump, "--disassemble", "--no-show-raw-insn", "--demangle", library]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def functions(text):
    """Yields (name, instructions) of every function."""
    for part in re.split(r"\n(?=[0-9a-f]+ <)", text):
        header = re.match(r"[0-9a-f]+ <(.*)>:\n", part)
        if header:
            yield header.group(1), part[header.end():]


def faults(text):
    """Lists what is wrong, and counts the kernels of each target."""
    found, counts = [], {}
    for name, body in functions(text):
        kernel = re.search(r"(N_\w+)::segment_tile<.*::(Bf16Pair|F16Pair|F32Word), (\d+), (\d+)>", name)
        if not kernel:
            continue
        target, weight = kernel.group(1), kernel.group(2)
        rule = TARGETS[target]
        counts[target] = counts.get(target, 0) + 1
        if not re.search(rule["uses"], body):
            found.append(f"{name}: no {rule['uses']}")
        if rule["wider"] and re.search(rule["wider"], body):
            found.append(f"{name}: has {rule['wider']}")
        if not re.search(rule["fused"], body):
            found.append(f"{name}: no fused multiply-add")
        if weight != "F16Pair" and re.search(rule["product"], body):
            found.append(f"{name}: a product outside a fused multiply-add")
    return found, counts


def main():
    text = disassemble(*sys.argv[1:3])
    found, counts = faults(text)
    expected = {"N_AVX2", "N_AVX3"} if "%xmm" in text else {"N_NEON"}
    found += [f"{target}: kernels are missing" for target in expected if counts.get(target, 0) < FEWEST_KERNELS]

    # The control: the same library with its fused multiply-adds replaced, and with narrower registers.
    for pattern, other in ((r"vfn?madd\w*ps|fmla", "vmulps fmul"), (r"%zmm|%ymm|v(\d+)\.4s", "%xmm")):
        if not faults(re.sub(pattern, other, text))[0]:
            found.append(f"the test does not notice {pattern} turned into {other}")

    print("\n".join(found) or f"kernels checked: {counts}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
