"""What the linear layers of int16-1 may be made of."""
import dataclasses
import pathlib
import runpy

# As those of exact-1, whose rules these are: integers do the summing.
RULES = runpy.run_path(str(pathlib.Path(__file__).parents[1] / "exact1" / "audit_rules.py"))
INT16 = dataclasses.replace(RULES["EXACT1"], name="int16-1", kernels=RULES["kernels_of"]("5int16"))

CONTRACTS = (INT16,)
