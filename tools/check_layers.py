#!/usr/bin/env python3
"""Says which #include goes against the order of the folders that ARCHITECTURE.md describes.

usage: tools/check_layers.py [ROOT]

Exits 1 with a line for every include that a folder may not have. Tests, fuzz targets and benches see the inside and are
not looked at.
"""
import re
import sys

import sources

# Who may include whom, beside itself. A folder that is not here is an error: give it a place first.
LAYERS = {
    "include/reprofuse": (),
    "src/base": ("include/reprofuse",),
    "src/numerics": ("include/reprofuse", "src/base"),
    "src/kernels": ("include/reprofuse", "src/base", "src/numerics"),
    "src/kernels/reference": ("src/kernels",),
    "src/kernels/cpu": ("src/kernels", "src/kernels/reference"),
    "src/kernels/cuda": ("src/kernels", "src/kernels/reference"),
    "src/kernels/vendor": ("src/kernels", "src/kernels/cuda"),
    "src/ops": ("src/kernels", "src/kernels/reference"),
    "src/parallel": ("src/base",),
    "src/checkpoint": ("src/numerics",),
    "src/text": ("src/base",),
    "src/model": ("src/ops", "src/checkpoint", "src/parallel"),
    "src/engine": ("src/model", "src/text"),
    "src/receipt": ("src/engine",),
    "src/server": ("src/server/openai",),
    "src/server/openai": ("src/receipt",),
    "src/study": ("src/engine", "src/kernels/vendor"),
    "src/api": ("src/engine",),
    "src/capi": ("include/reprofuse", "src/base"),
    "apps/cli": ("src/server", "src/study"),
}

# Who asks the layers between for what a lower one has: (includer, included), beginnings of paths.
APART = {("src/server/", "src/kernels/"), ("apps/cli/serve_", "src/kernels/")}

# Folders that only their own files include, however low they stand, and those named in EXCEPTIONS.
PRIVATE = ("src/kernels/cpu", "src/kernels/cuda", "src/kernels/vendor")

# (includer, included): beginnings of paths, each pair with its reason.
EXCEPTIONS = {
    ("src/ops/baselines.cpp", "src/kernels/vendor/"): "the table of baselines",
    ("src/study/ablation/", "src/kernels/cuda/"): "its kernels are those of a contract with one rule switched off",
    ("src/study/ablation/", "src/kernels/cpu/"): "likewise",
    ("apps/cli/openblas_kernels.cpp", "src/kernels/vendor/libraries.hpp"): "runs the tool again under another OpenBLAS",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def layer_of(path):
    """The longest folder of LAYERS that the path is in; None: it is in none."""
    inside = [folder for folder in LAYERS if path.startswith(folder + "/")]
    return max(inside, key=len, default=None)


def below(layer):
    """Every layer that this one may include: those named, and what they may include."""
    found = {layer}
    for direct in LAYERS[layer]:
        found |= below(direct)
    return found


def resolve(files, includer, name):
    """The file of this repository that an include names; None: another's."""
    folders = (includer.rpartition("/")[0], "include", "src", "apps")
    return next((f"{folder}/{name}" for folder in folders if f"{folder}/{name}" in files), None)


def is_excepted(includer, included):
    return any(includer.startswith(a) and included.startswith(b) for a, b in EXCEPTIONS)


def complaint(includer, included):
    """Why the first file may not include the second; None: it may."""
    of_includer, of_included = layer_of(includer), layer_of(included)
    if of_includer is None or of_included is None:
        return "and one of the two is in a folder that tools/check_layers.py gives no place"
    if of_includer == of_included or is_excepted(includer, included):
        return None
    if of_included in PRIVATE and of_included not in LAYERS[of_includer]:
        return f"which only {of_included} itself includes"
    if any(includer.startswith(a) and included.startswith(b) for a, b in APART):
        return "and asks the layers between instead"
    if of_included not in below(of_includer):
        return f"and {of_includer} does not stand on {of_included}"
    return None


def complaints(root):
    files, found = sources.texts(root, "include", "src", "apps"), []
    for includer, text in files.items():
        for name in INCLUDE.findall(text):
            included = resolve(files, includer, name)
            why = complaint(includer, included) if included else None
            if why:
                found.append(f"{includer} includes {included}, {why}")
    return found


if __name__ == "__main__":
    sys.exit(sources.main(complaints))
