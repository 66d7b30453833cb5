"""A problem while it is being written: its sentences, its worked steps and its answer."""
import dataclasses
import re

import words


BEFORE = ("Please solve this problem: ", "Can you help me with this? ", "Solve this: ", "Question: ",
          "Here is a problem. ",
          "I have a question. ", "Solve step by step: ", "Problem: ", "Hi! ")
AFTER = (" Show your work.", " Explain each step.", " Please explain.", " Thanks!", " Solve it step by step.",
         " Thank you.")
SMALL_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()


@dataclasses.dataclass
class Problem:
    family: str  # the kind of problem, with its sequence of operations
    question: str
    steps: list  # of str, one line each
    answer: str  # a whole number, or dollars as $3 or $3.50
    numbers: tuple  # the numbers that matter, in the order of the text
    pair: tuple  # (name, thing)


class Draft:
    """What a family of problems writes into. The last sentence is the question."""

    def __init__(self, rng):
        self.rng = rng
        self.who = words.draw_person(rng)
        self.friend = words.draw_person(rng, self.who)
        self.thing = words.draw_thing(rng)
        self.box = rng.choice(words.CONTAINERS)
        self.sentences = []
        self.steps = []
        self.marks = []  # what distinguishes variants of one family beyond the numbers
        self.answer = None

    def say(self, *ways):
        self.sentences.append(self.rng.choice(ways))

    def step(self, label, worked):
        chain, value = worked
        self.steps.append(f"{label}: {chain}.")
        return value

    def mark(self, name):
        self.marks.append(name)

    def finish(self, family, aside=False):
        """The problem. What makes it the same problem as another is read before an aside comes in."""
        numbers = tuple(re.findall(r"\d+(?:\.\d\d)?", " ".join(self.sentences)))
        if aside:
            self.add_aside()
        question = self.retold()
        return Problem(":".join([family] + self.marks), question,
                       [with_articles(step) for step in self.steps], str(self.answer), numbers,
                       (self.who.name, self.thing.one))

    def retold(self):
        """The sentences as one text: now and then joined, in the past tense, with number words, or framed."""
        rng, sentences = self.rng, self.sentences
        if rng.percent(25):
            sentences = joined(sentences, rng)
        if rng.percent(20):
            sentences = [in_past(sentence) for sentence in sentences[:-1]] + sentences[-1:]
        text = with_articles(" ".join(sentences))
        if rng.percent(12):
            text = with_number_words(text)
        if rng.percent(4):
            text = text.lower()
        if rng.percent(3):
            text = rng.choice(BEFORE) + text
        if rng.percent(3):
            text += rng.choice(AFTER)
        return text

    def add_aside(self):
        """A fact that has nothing to do with the question goes somewhere before it."""
        n, who, friend = self.rng.between(2, 60), self.who.name, self.friend.name
        if self.rng.percent(40):  # about someone else: only at the start, where no pronoun can be misread
            self.sentences.insert(0, self.rng.choice([
                f"{friend} walks {n} minutes to {self.rng.choice(words.PLACES)} every day.", f"{friend} likes music.",
                f"{friend} is {n} cm taller than {who}.", f"{friend} lives at number {n}."]))
            return
        self.sentences.insert(self.rng.choice([0, len(self.sentences) - 1]), self.rng.choice([
            f"It is {n} minutes to {self.rng.choice(words.PLACES)}.", f"The {self.rng.choice(words.DAYS)} is sunny.",
            f"{who} lives at number {n}.", f"{who} has a {self.rng.choice(words.RELATIVES)} who is {n + 5} years old.",
            f"The shop opens at {self.rng.between(7, 10)} o'clock.", f"There are {n} trees on the street."]))


def capital(text):
    return text[0].upper() + text[1:]


def with_articles(text):
    """Turns 'a apple' and 'a hour' into 'an apple' and 'an hour'."""
    return re.sub(r"\b([Aa]) (?=[aeiou]|hour)", r"\1n ", text)


def with_number_words(text):
    """Writes '3 pens' as 'three pens', up to twelve; not in prices, fractions and percentages."""
    text = re.sub(r"(?<![$\d./])(?<![+*/x-] )\b([2-9]|1[0-2])\b(?!\.\d|[/%\d]| [+*/x-])",
                  lambda m: SMALL_NUMBERS[int(m[1])], text)
    return re.sub(r"(^|[.?] )([a-z])", lambda m: m[1] + m[2].upper(), text)


def in_past(text):
    """Statements only: a question's 'does she have' stays as it is."""
    if "?" in text or "years" in text:  # an age is told in the present
        return text
    return re.sub(r"[a-z]+", lambda m: words.PAST.get(m[0], m[0]), text)


def joined(sentences, rng):
    """'He buys 5 pens. Then he sells 3.' becomes 'He buys 5 pens and then sells 3.'"""
    result = sentences[:1]
    for sentence in sentences[1:]:
        match = re.match(r"(He|She|Then he|Then she) (\w+ [^?]*)$", sentence)
        if match and re.fullmatch(r"[A-Z]\w* [a-z]+ [^.?]*\.", result[-1]) and not result[-1].startswith("There"):
            link = rng.choice([" and then ", ", then "]) if match[1].startswith("Then") else " and "
            result[-1] = result[-1][:-1] + link + match[2]
        else:
            result.append(sentence)
    return result


def easy_divisor(rng):
    """A number that a pupil can divide by without writing a table first."""
    return rng.between(2, 12) if rng.percent(70) else rng.choice([15, 20, 25, 30, 40, 50])


def divisors(n, low=2, high=12):
    return [d for d in range(low, high + 1) if n % d == 0 and n // d >= 1]
