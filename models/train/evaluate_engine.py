#!/usr/bin/env python3
"""Answers a set of problems with ReproFuse, greedily, and scores them.

  evaluate_engine.py REPROFUSE PROBLEMS OUTPUTS [--compare OTHER_OUTPUTS] [OPTIONS OF reprofuse generate ...]

OUTPUTS gets one JSON object a line, with "text" and the "digest" of the logits; evaluate.py score reads it, too. With
--compare, texts that differ from those of another engine are listed, and the exit status says whether there were any.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from evaluate import MAX_NEW_TOKENS, print_table, read_lines, score


def answer(reprofuse, question, options):
    command = [reprofuse, "generate", "--chat", "--prompt", "-", "--json", "--digest", "--temperature", "0",
               "--max-tokens", str(MAX_NEW_TOKENS)]
    done = subprocess.run(command + options, input=question, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{question!r}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return {"text": result["text"], "digest": result["digest"]}


def print_differences(texts, others):
    """How many texts differ, and where."""
    if len(texts) != len(others):
        sys.exit(f"{len(texts)} texts, and {len(others)} to compare them with")
    different = [i for i, (text, other) in enumerate(zip(texts, others)) if text != other]
    for i in different:
        print(f"problem {i}:\n  {texts[i]!r}\n  {others[i]!r}")
    print(f"{len(texts) - len(different)} of {len(texts)} texts are the same")
    return len(different)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprofuse")
    parser.add_argument("problems", type=pathlib.Path)
    parser.add_argument("outputs", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    args, options = parser.parse_known_args()
    problems = read_lines(args.problems)
    answers = [answer(args.reprofuse, problem["question"], options) for problem in problems]
    args.outputs.write_text("".join(json.dumps(line) + "\n" for line in answers), encoding="utf-8")
    texts = [line["text"] for line in answers]
    print_table(score(problems, texts))
    if args.compare and print_differences(texts, [line["text"] for line in read_lines(args.compare)]):
        sys.exit(1)


if __name__ == "__main__":
    main()
