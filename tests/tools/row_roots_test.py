#!/usr/bin/env python3
"""The roots of rows in golden receipts are those of the logits that `reprofuse trace` writes, by the text of NUMERICS.md (Answers).

Usage: row_roots_test.py TOOL"""
import base64
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = sys.argv.pop(1)


def sha256(data):
    return hashlib.sha256(data).digest()


def root_of(leaves):
    if len(leaves) == 1:
        return leaves[0]
    first = max(1 << i for i in range(32) if 1 << i < len(leaves))
    return sha256(b"\1" + root_of(leaves[:first]) + root_of(leaves[first:]))


def rows_of(trace):
    """The logits of each position, as they stand in a safetensors file: little-endian words."""
    content = trace.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    places = {int(name.split("/")[0]): entry["data_offsets"] for name, entry in json.loads(content[8:begin]).items()
              if name.endswith("/lm_head")}
    return [content[begin + places[position][0]:begin + places[position][1]] for position in sorted(places)]


def row_root(row):
    return root_of([sha256(b"\0" + row[at:at + 1024]) for at in range(0, len(row), 1024)]).hex()


class RowRoots(unittest.TestCase):
    def test_are_those_of_the_logits(self):
        for contract in ("fma-1", "exact-1"):
            receipt = json.loads((ROOT / "golden" / "receipts" / "cpu" / f"{contract}-greedy.json").read_text())
            said = json.loads(base64.b64decode(receipt["payload"]))["predicate"]
            with tempfile.TemporaryDirectory() as folder:
                trace = pathlib.Path(folder) / "trace"
                prompt = ",".join(map(str, said["prompt"]["tokens"]))
                subprocess.run([TOOL, "trace", "--numerics", contract, "--prompt-tokens", prompt, "--max-tokens",
                                said["steps"]["count"], "--out", trace], check=True, stdout=subprocess.DEVNULL)
                rows = rows_of(trace)
            self.assertGreater(len(rows), 10)
            self.assertEqual([row_root(row) for row in rows], said["steps"]["roots"])
            self.assertNotIn(row_root(rows[0][:-1] + bytes([rows[0][-1] ^ 1])), said["steps"]["roots"], "one bit is another")


if __name__ == "__main__":
    unittest.main()
