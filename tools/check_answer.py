#!/usr/bin/env python3
"""Asks a build of the tool for the answer in golden/answers.json and compares tokens and digest, which every machine must
give.

Usage: check_answer.py ANSWERS COMMAND...   where COMMAND is `reprofuse generate`, with its emulator and options
"""
import json
import pathlib
import subprocess
import sys


def differences(golden, answer):
    """A line per key of the answer that is not as recorded; numerics have a digest each."""
    numerics, digests = answer.get("numerics"), golden["tree_digests"]
    if numerics not in digests:
        return [f"numerics: expected one of {', '.join(digests)}, got {numerics}"]
    expected = {"prompt_tokens": golden["prompt_tokens"], "tokens": golden["tokens"], "digest": digests[numerics]}
    return [f"{key}: expected {expected[key]}, got {answer.get(key)}"
            for key in expected if answer.get(key) != expected[key]]


def main():
    golden = json.loads(pathlib.Path(sys.argv[1]).read_text())
    prompt = ",".join(map(str, golden["prompt_tokens"]))
    command = [*sys.argv[2:], "--prompt-tokens", prompt, "--digest", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"exit status {done.returncode}: {' '.join(command)}\n{done.stderr}")
        return 1
    answer = json.loads(done.stdout)
    found = differences(golden, answer)
    print("\n".join(found) or f"digest {answer['digest']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
