#!/usr/bin/env python3
"""tools/check_answer.py passes on the golden answer and fails when any part of it is another, or when there is none."""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "golden" / "answers.json"


def check(printed, exit_status=0):
    """What check_answer.py says of a tool that prints this."""
    with tempfile.TemporaryDirectory() as folder:
        tool = pathlib.Path(folder) / "tool"
        tool.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(printed)}\nexit {exit_status}\n")
        tool.chmod(0o755)
        command = [sys.executable, ROOT / "tools" / "check_answer.py", GOLDEN, tool, "generate"]
        return subprocess.run(command, capture_output=True, text=True, check=False).returncode


def main():
    golden = json.loads(GOLDEN.read_text())
    shared = {key: golden[key] for key in ("prompt_tokens", "tokens")}
    answers = [{**shared, "numerics": numerics, "digest": digest} for numerics, digest in golden["tree_digests"].items()]
    first = answers[0]
    altered = [{**first, "digest": "0" + first["digest"][1:]}, {**first, "tokens": first["tokens"][:-1]},
               {**first, "prompt_tokens": []}, {**first, "numerics": "bf16"}, {**first, "numerics": answers[1]["numerics"]},
               {**shared, "numerics": first["numerics"]}, {**shared, "digest": first["digest"]}]
    failures = [f"refused: {answer}" for answer in answers if check(json.dumps(answer)) != 0]
    failures += [f"passed: {answer}" for answer in altered if check(json.dumps(answer)) == 0]
    failures += ["a tool that failed passed"] if check(json.dumps(first), 1) == 0 else []
    print("\n".join(failures) or "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
