#!/usr/bin/env python3
"""Writes the tasks of the study: JSON lines with id, prompt and, where one is known, answer.

  tasks.py DIRECTORY [--prose DIR]    all but the prose task, or that one alone, from the held-out passages in DIR

The problems lie at the edge of what the models can do: numbers and persons that training held out, longer stories, larger
numbers, wordings that training does not have, answers without steps. There a model is uncertain, as larger ones are on
the problems that are set to them.
"""
import argparse
import json
import pathlib

import algebra
import arithmetic
import corpus
import study_corpus
import words
from draft import with_articles
from rng import Rng

SEED = 20261116
COUNTS = {"arithmetic": 400, "algebra": 400, "choice": 400, "long": 250, "compose": 300, "prose": 300}
LONG_STEPS = (9, 14)  # training has at most study_corpus.LONG_STEPS
PROSE_WORDS = (6, 24)

# Wordings that no family of the corpus has. Each has a function from its numbers to the answer.
UNFAMILIAR = [
    ("{who} counts {a} {things} in the cellar and {b} in the attic; {c} of them turn out to belong to {friend}. How many"
     " are left for {who}?", lambda a, b, c, k: a + b - c),
    ("Of {a} {things}, {who} puts {b} aside for {friend}, and every one of the others is then cut into {k} pieces. How"
     " many pieces are there?", lambda a, b, c, k: (a - b) * k),
    ("A cart carries {k} sacks with {a} {things} in each. On a bad road {b} {things} fall off. What arrives?",
     lambda a, b, c, k: k * a - b),
    ("{friend} owes {who} {a} {things}, has paid back {b}, and borrows {c} again. How large is the debt now?",
     lambda a, b, c, k: a - b + c),
    ("Every one of {k} shelves has room for {a} {things}. There are {b} {things} on them already. How many more fit?",
     lambda a, b, c, k: k * a - b),
    ("{who} and {friend} set out with {a} {things} each. By evening {who} has used {b} and {friend} {c}. How many do the"
     " two still have?", lambda a, b, c, k: 2 * a - b - c),
    ("Had {who} found {c} {things} more, there would be {a}. {who} now loses {b}. How many remain?",
     lambda a, b, c, k: a - c - b),
    ("The first of {k} drawers holds {a} {things}, and each one after it {c} more than the one before. How many {things}"
     " are in the last?", lambda a, b, c, k: a + (k - 1) * c),
]


def unfamiliar(rng):
    """A problem in one of those wordings, with numbers of two to four digits."""
    while True:
        text, answer_of = rng.choice(UNFAMILIAR)
        size = rng.choice([90, 900, 9000])
        numbers = {"a": rng.between(size // 2, size), "b": rng.between(2, size // 4), "c": rng.between(2, size // 4),
                   "k": rng.between(3, 24)}
        who, thing = words.draw_person(rng), words.draw_thing(rng)
        friend = words.draw_person(rng, who)
        answer = answer_of(**numbers)
        if answer > 0:
            told = text.format(who=who.name, friend=friend.name, things=thing.many, **numbers)
            return with_articles(told), str(answer)


def large(rng):
    """Sums and products of more digits than training has."""
    if rng.percent(50):
        terms = [rng.between(1000, 99999) for _ in range(rng.between(2, 4))]
        return f"What is {' + '.join(map(str, terms))}?", str(arithmetic.plus(*terms)[1])
    a, b = rng.between(100, 9999), rng.between(11, 999)
    return f"What is {a} x {b}?", str(a * b)


def without_steps(rng):
    problem = held_out(study_corpus.any_problem, rng)
    return f"{problem.question} {rng.choice(study_corpus.ONLY_ANSWER)}", problem.answer


def held_out(draw, rng):
    """The first problem drawn whose numbers training held out."""
    while True:
        problem = draw(rng)
        if corpus.numbers_held_out(problem.family, problem.numbers):
            return problem


def arithmetic_task(rng):
    return rng.choice([unfamiliar, unfamiliar, large, without_steps])(rng)


def hard_algebra(rng):
    """A known kind of equation with numbers beyond those of training."""
    x, a, b = rng.between(61, 400), rng.between(13, 40), rng.between(91, 900)
    name, other = rng.choice(algebra.LETTERS), rng.between(2, 12)
    if rng.percent(50):
        return f"Solve for {name}: {a}{name} + {b} = {a * x + b}.", str(x)
    return f"Solve for {name}: {a + other}{name} + {b} = {a}{name} + {b + other * x}.", str(x)


def algebra_task(rng):
    if rng.percent(40):
        return hard_algebra(rng)
    problem = held_out(study_corpus.algebra_problem, rng)
    ask = f" {rng.choice(study_corpus.ONLY_ANSWER)}" if rng.percent(40) else ""
    return problem.question + ask, problem.answer


def choice_task(rng):
    problem = held_out(study_corpus.any_problem, rng)
    ask = rng.choice(study_corpus.ONLY_LETTER + study_corpus.WITH_LETTER)
    problem = study_corpus.with_choices(rng, problem, ask)
    return problem.question, problem.answer


def long_task(rng):
    problem = study_corpus.long_story(rng, *LONG_STEPS)
    return problem.question, problem.answer


def compose_task(rng):
    """Two or three problems to make up, about a person and a thing that training held apart."""
    while True:
        person, thing = words.draw_person(rng), words.draw_thing(rng)
        if corpus.pair_held_out((person.name, thing.one)):
            subject = study_corpus.about(rng, person, thing) or f" about {thing.many}"
            return study_corpus.request(rng, rng.between(2, 3), subject), None


GENERATORS = {"arithmetic": arithmetic_task, "algebra": algebra_task, "choice": choice_task, "long": long_task,
              "compose": compose_task}


def line(task, number, prompt, answer):
    entry = {"id": f"{task}-{number}", "prompt": prompt}
    return json.dumps(entry | ({"answer": answer} if answer is not None else {})) + "\n"


def task_lines(task):
    """No prompt twice."""
    rng, seen = Rng(corpus.conversation_seed(SEED, list(COUNTS).index(task))), {}
    while len(seen) < COUNTS[task]:
        prompt, answer = GENERATORS[task](rng)
        seen.setdefault(prompt, answer)
    return [line(task, number, prompt, answer) for number, (prompt, answer) in enumerate(seen.items())]


def prose_lines(passages):
    """The first words of held-out paragraphs, spread over all passages."""
    rng = Rng(corpus.conversation_seed(SEED, list(COUNTS).index("prose")))
    long_enough = [p for passage in passages for p in passage if len(p.split()) > 2 * PROSE_WORDS[1]]
    count = COUNTS["prose"]
    if len(long_enough) < count:
        raise ValueError(f"{len(long_enough)} long paragraphs for {count} prompts")
    chosen = [long_enough[i * len(long_enough) // count] for i in range(count)]
    return [line("prose", number, " ".join(text.split()[:rng.between(*PROSE_WORDS)]), None)
            for number, text in enumerate(chosen)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--prose", type=pathlib.Path)
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    if args.prose:
        passages = json.loads((args.prose / "heldout.json").read_text())
        (args.directory / "prose.jsonl").write_text("".join(prose_lines(passages)))
        return
    for task in GENERATORS:
        (args.directory / f"{task}.jsonl").write_text("".join(task_lines(task)))


if __name__ == "__main__":
    main()
