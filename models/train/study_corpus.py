#!/usr/bin/env python3
"""What the arithmetic models of the study are trained on: the corpus of corpus.py, and five more kinds of conversations.

  study_corpus.py [--seed N] [--count N]    prints conversations

Answers without steps, and problems that the model makes up, have no certain next token: that is what they are for.
"""
import argparse
import dataclasses
import re

import algebra
import corpus
import draft
import stories
import words
from rng import Rng

ALGEBRA = [family for family, weight in algebra.FAMILIES.items() for _ in range(weight)]
LONG_STEPS = (5, 10)
ONLY_ANSWER = ("Give only the answer.", "Only the answer, please.", "Answer without steps.")
ONLY_LETTER = ("Answer with a letter only.", "Give only the letter.")
WITH_LETTER = ("Answer with a letter.", "Which is right?", "Choose one.")
COUNTS = {1: "a problem", 2: "two problems", 3: "three problems"}


def algebra_problem(rng):
    family = rng.choice(ALGEBRA)
    return family(rng).finish(family.__name__)


def long_story(rng, low, high):
    """A story of so many steps, whose number stays within four digits."""
    wanted = rng.between(low, high)
    while True:
        tale = stories.Story(rng)
        start = rng.choice([stories.start_count, stories.start_groups, stories.start_two])
        start(tale)
        tale.mark(start.__name__)
        while len(tale.steps) < wanted:
            event = rng.choice(stories.EVENTS[rng.between(1, min(wanted - len(tale.steps), 2))])
            if event(tale) is not False:
                tale.mark(event.__name__)
        if tale.value <= 9999:
            stories.how_many_now(tale)
            tale.answer = tale.value
            return tale.finish("long_story")


def kept(draw, rng):
    """The first problem drawn that is not held out."""
    while True:
        problem = draw(rng)
        if not corpus.numbers_held_out(problem.family, problem.numbers) and not corpus.pair_held_out(problem.pair):
            return problem


def any_problem(rng):
    return algebra_problem(rng) if rng.percent(30) else corpus.draw_problem(rng)


def wrong_answers(rng, problem):
    """Three numbers near the right one, or met on the way to it."""
    dollars, right = problem.answer.startswith("$"), problem.answer.lstrip("$")
    point = "." in right
    value = int(right.replace(".", ""))
    met = [step.rstrip(".").split(" ")[-1] for step in problem.steps[:-1]]
    near = [int(n) for n in met if n.isdigit()] + [value + d for d in (1, -1, 2, 10, -10, 9, 100)] + [2 * value]
    chosen = []
    while len(chosen) < 3:
        n = rng.choice(near)
        if n > 0 and n != value and n not in chosen:
            chosen.append(n)
    return [("$" if dollars else "") + (f"{n // 100}.{n % 100:02d}" if point else str(n)) for n in chosen]


def with_choices(rng, problem, ask):
    """The problem as a question with four answers to choose from; its answer is the letter."""
    options = wrong_answers(rng, problem)
    place = rng.below(4)
    options.insert(place, problem.answer)
    lines = [f"{letter}. {option}" for letter, option in zip("ABCD", options)]
    return dataclasses.replace(problem, question="\n".join([problem.question, *lines, ask]), answer="ABCD"[place])


def about(rng, person, thing):
    return rng.choice([f" about {thing.many}", f" about {person.name}", f" about {person.name} and {thing.many}", ""])


def request(rng, count, subject):
    verb = rng.choice(["Make up", "Write", "Invent"])
    return f"{verb} {COUNTS[count]}{subject} and solve {'it' if count == 1 else 'them'}."


def made_up(problems):
    return "\n\n".join(f"Problem: {problem.question}\n{corpus.reply(problem)}" for problem in problems)


def compose(rng):
    """(request, answer): problems that are made up, all of one person and one thing."""
    count, person, thing = rng.between(1, 3), words.draw_person(rng), words.draw_thing(rng)
    subject, problems = about(rng, person, thing), []
    while len(problems) < count:
        problem = kept(corpus.draw_problem, rng)
        others = {"he", "his", "him"} if person.he == "she" else {"she", "her"}
        if (problem.pair[1] in problem.question and not problem.question.islower()
                and others.isdisjoint(re.findall(r"[a-z]+", problem.question.lower()))):
            problems.append(retell(problem, person, thing))
    return request(rng, count, subject), made_up(problems)


def retell(problem, person, thing):
    """The problem as one of this person and this thing; the words for the old ones are replaced."""
    name, one = problem.pair
    many = next((t.many for t in words.THINGS + words.GOODS if t.one == one), one + ("es" if one[-1] in "sx" else "s"))
    old_and_new = [(name, person.name), (many, thing.many), (many.capitalize(), thing.many.capitalize()),
                   (one, thing.one), (one.capitalize(), thing.one.capitalize())]

    def told(text):
        for old, new in old_and_new:
            text = re.sub(rf"\b{re.escape(old)}\b", new, text)
        return draft.with_articles(re.sub(r"\b([Aa])n (?![aeiou]|hour)", r"\1 ", text))

    return dataclasses.replace(problem, question=told(problem.question), steps=[told(step) for step in problem.steps],
                               pair=(person.name, thing.one))


def training_conversation(rng):
    """A list of (role, text)."""
    kind = rng.below(100)
    if kind < 40:
        return corpus.training_conversation(rng)
    if kind < 55:
        problem = kept(algebra_problem, rng)
        return [("user", problem.question), ("assistant", corpus.reply(problem))]
    if kind < 63:
        problem = kept(lambda r: long_story(r, *LONG_STEPS), rng)
        return [("user", problem.question), ("assistant", corpus.reply(problem))]
    if kind < 78:
        problem, only = kept(any_problem, rng), rng.percent(50)
        problem = with_choices(rng, problem, rng.choice(ONLY_LETTER if only else WITH_LETTER))
        answer = f"Answer: {problem.answer}" if only else corpus.reply(problem)
        return [("user", problem.question), ("assistant", answer)]
    if kind < 88:
        problem = kept(any_problem, rng)
        return [("user", f"{problem.question} {rng.choice(ONLY_ANSWER)}"), ("assistant", f"Answer: {problem.answer}")]
    question, answer = compose(rng)
    return [("user", question), ("assistant", answer)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args()
    for index in range(args.count):
        for role, text in training_conversation(Rng(corpus.conversation_seed(args.seed, index))):
            print(f"[{role}] {text}")
        print()


if __name__ == "__main__":
    main()
