#!/usr/bin/env python3
"""Asks a build of the tool for the answer in golden/answers.json and compares tokens and digest, which every machine must
give.

Usage: check_answer.py ANSWERS COMMAND...   where COMMAND is `reprofuse generate`, with its emulator and options
"""
import json
import pathlib
import subprocess
import sys


def differences(expected, answer):
    return [f"{key}: expected {expected[key]}, got {answer.get(key)}"
            for key in ("numerics", "prompt_tokens", "tokens", "digest") if answer.get(key) != expected[key]]


def main():
    expected = json.loads(pathlib.Path(sys.argv[1]).read_text())
    prompt = ",".join(map(str, expected["prompt_tokens"]))
    command = [*sys.argv[2:], "--prompt-tokens", prompt, "--digest", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"exit status {done.returncode}: {' '.join(command)}\n{done.stderr}")
        return 1
    found = differences(expected, json.loads(done.stdout))
    print("\n".join(found) or f"digest {expected['digest']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
