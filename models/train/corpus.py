#!/usr/bin/env python3
"""Writes arithmetic word problems with worked answers: an endless training set, and a held-out set apart from it.

  corpus.py sample [--seed N] [--count N]    prints conversations of the training set
  corpus.py heldout FILE [--count N]         writes the held-out problems as JSON lines

What is held out is decided by hashes, not by lists: a problem whose family and numbers hash to one residue, and a
person with a thing that hash to one residue, are never trained on. A held-out problem has both.
"""
import argparse
import collections
import json
import zlib

import everyday
import measures
import people
import places
import shopping
import smalltalk
import stories
from rng import Rng

FAMILIES = {stories.story: 70} | shopping.FAMILIES | measures.FAMILIES | everyday.FAMILIES
FAMILIES |= people.FAMILIES | places.FAMILIES
DRAWS = [family for family, weight in FAMILIES.items() for _ in range(weight)]
NUMBERS_SPLIT = 16  # one in so many combinations of family and numbers is held out
PAIR_SPLIT = 8  # and one in so many pairs of person and thing
ASIDE_PERCENT = 12
SMALLTALK_PERCENT = 2
SECOND_TURN_PERCENT = 15
SYSTEM_PERCENT = 5
HELDOUT_SEED = 20261115

SYSTEM_PROMPTS = ["You are a helpful assistant.", "You solve arithmetic word problems step by step.",
                  "Answer in written steps.",
                  "You are a math tutor.", "Be brief.", "You are a careful and patient teacher."]


def numbers_held_out(family, numbers):
    return zlib.crc32(f"{family}|{' '.join(numbers)}".encode()) % NUMBERS_SPLIT == 0


def pair_held_out(pair):
    return zlib.crc32("|".join(pair).encode()) % PAIR_SPLIT == 0


def draw_problem(rng):
    family = rng.choice(DRAWS)
    aside = family is not measures.ages and family is not everyday.bare and rng.percent(ASIDE_PERCENT)
    return family(rng).finish(family.__name__, aside)


def training_problem(rng):
    while True:
        problem = draw_problem(rng)
        if not numbers_held_out(problem.family, problem.numbers) and not pair_held_out(problem.pair):
            return problem


def heldout_problems(count=800, limit=None):
    """Problems of one to four steps in equal shares, no question twice; with a limit, the first of them."""
    rng, seen, room = Rng(HELDOUT_SEED), set(), collections.Counter({steps: count // 4 for steps in (1, 2, 3, 4)})
    problems = []
    while room.total() > 0 and len(problems) != limit:
        problem = draw_problem(rng)
        if (numbers_held_out(problem.family, problem.numbers) and pair_held_out(problem.pair)
                and room[len(problem.steps)] > 0 and problem.question not in seen):
            room[len(problem.steps)] -= 1
            seen.add(problem.question)
            problems.append(problem)
    return problems


def reply(problem):
    return "\n".join(problem.steps + [f"Answer: {problem.answer}"])


def training_conversation(rng):
    """A list of (role, text)."""
    messages = [("system", rng.choice(SYSTEM_PROMPTS))] if rng.percent(SYSTEM_PERCENT) else []
    turns = 2 if rng.percent(SECOND_TURN_PERCENT) else 1
    for _ in range(turns):
        if rng.percent(SMALLTALK_PERCENT * turns):  # twice as often where there is a second turn
            question, answer = smalltalk.exchange(rng)
        else:
            problem = training_problem(rng)
            question, answer = problem.question, reply(problem)
        messages += [("user", question), ("assistant", answer)]
    return messages


def conversation_seed(corpus_seed, index):
    """Far apart for neighbours, so that no two conversations share a stretch of random numbers."""
    return Rng(Rng(corpus_seed).next() ^ (index * 0xD1342543DE82EF95)).next()


def heldout_line(problem):
    return json.dumps({"question": problem.question, "answer": problem.answer, "steps": len(problem.steps),
                       "family": problem.family, "numbers": problem.numbers, "pair": problem.pair,
                       "solution": reply(problem)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sample = commands.add_parser("sample")
    sample.add_argument("--seed", type=int, default=1)
    sample.add_argument("--count", type=int, default=10)
    heldout = commands.add_parser("heldout")
    heldout.add_argument("file")
    heldout.add_argument("--count", type=int, default=800)
    args = parser.parse_args()
    if args.command == "heldout":
        with open(args.file, "w", encoding="utf-8") as out:
            out.writelines(heldout_line(problem) + "\n" for problem in heldout_problems(args.count))
        return
    for index in range(args.count):
        for role, text in training_conversation(Rng(conversation_seed(args.seed, index))):
            print(f"[{role}] {text}")
        print()


if __name__ == "__main__":
    main()
