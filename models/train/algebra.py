"""Families of problems about unknown numbers, for the models of the study; written and solved as the others are."""
from arithmetic import minus, over, plus, times
from draft import Draft

LETTERS = "bcdhkmnpqrtuvwxyz"


def linear(rng):
    """7x + 12 = 96, or with a minus."""
    d, x, a, b = Draft(rng), rng.between(2, 60), rng.between(2, 12), rng.between(2, 90)
    name = rng.choice(LETTERS)
    add = a * x <= b or rng.percent(55)
    total = a * x + b if add else a * x - b
    equation = f"{a}{name} {'+' if add else '-'} {b} = {total}"
    d.say(f"Solve for {name}: {equation}.", f"What is {name} if {equation}?", f"Find {name}: {equation}.",
          f"{equation}. What is {name}?", f"Solve the equation {equation}.")
    d.mark("plus" if add else "minus")
    d.answer = d.step(f"{name}", over(d.step(f"{a}{name}", (minus if add else plus)(total, b)), a))
    return d


def both_sides(rng):
    """9x + 5 = 4x + 40."""
    d, x, small, more = Draft(rng), rng.between(2, 40), rng.between(2, 9), rng.between(2, 9)
    large, right, name = small + more, rng.between(20, 300), rng.choice(LETTERS)
    left = right - more * x
    if left < 1:
        left, right = left + 300, right + 300
    if left < 1:
        left, right = left + 300, right + 300
    equation = f"{large}{name} + {left} = {small}{name} + {right}"
    d.say(f"Solve for {name}: {equation}.", f"What is {name} if {equation}?", f"Find {name}: {equation}.",
          f"For which {name} is {equation}?")
    count = d.step(f"{name} on the left", minus(large, small))
    rest = d.step("Numbers on the right", minus(right, left))
    d.answer = d.step(name, over(rest, count))
    return d


def secret(rng):
    """A number, what is done to it, and what comes out."""
    d, x, a, b = Draft(rng), rng.between(3, 80), rng.between(2, 12), rng.between(2, 90)
    who, he = d.who.name, d.who.he
    if rng.percent(50):
        d.mark("times first")
        total = a * x + b
        d.say(f"{who} thinks of a number, multiplies it by {a} and adds {b}. The result is {total}. What is the number?",
              f"{a} times a number plus {b} is {total}. What is the number?",
              f"If {who} multiplies a number by {a} and then adds {b}, {he} gets {total}. Find the number.")
        d.answer = d.step("The number", over(d.step("Before adding", minus(total, b)), a))
        return d
    total = (x + b) * a
    d.say(f"{who} thinks of a number, adds {b} and multiplies the sum by {a}. The result is {total}. What is the number?",
          f"{who} adds {b} to a number. {a} times the sum is {total}. What is the number?")
    d.answer = d.step("The number", minus(d.step("Before multiplying", over(total, a)), b))
    return d


def sum_and_difference(rng):
    d, small, gap = Draft(rng), rng.between(2, 300), rng.between(1, 200)
    large, who, other, things = small + gap, d.who.name, d.friend.name, d.thing.many
    total, larger = small + large, rng.percent(50)
    which = "larger" if larger else "smaller"
    d.mark(which)
    d.say(f"The sum of two numbers is {total} and their difference is {gap}. What is the {which} number?",
          f"Two numbers add up to {total}. One is {gap} more than the other. What is the {which} one?",
          f"{who} and {other} have {total} {things} together. {who} has {gap} more than {other}. How many {things} does"
          f" {who if larger else other} have?")
    twice = d.step(f"Twice the {which}", (plus if larger else minus)(total, gap))
    d.answer = d.step(f"The {which}", over(twice, 2))
    return d


def substitute(rng):
    d, a, b, m, n = Draft(rng), rng.between(2, 60), rng.between(2, 60), rng.between(2, 12), rng.between(2, 12)
    p = rng.choice(LETTERS)
    q = rng.choice([letter for letter in LETTERS if letter != p])
    add = m * a <= n * b or rng.percent(60)
    value = f"{m}{p} {'+' if add else '-'} {n}{q}"
    d.say(f"If {p} = {a} and {q} = {b}, what is {value}?", f"Let {p} = {a} and {q} = {b}. Find {value}.",
          f"What is {value} for {p} = {a} and {q} = {b}?")
    d.mark("plus" if add else "minus")
    first, second = d.step(f"{m}{p}", times(m, a)), d.step(f"{n}{q}", times(n, b))
    d.answer = d.step("Result", (plus if add else minus)(first, second))
    return d


def consecutive(rng):
    d, first, count = Draft(rng), rng.between(2, 200), rng.choice([3, 3, 5])
    word, total = {3: "Three", 5: "Five"}[count], sum(range(first, first + count))
    end = rng.choice(["smallest", "largest", "middle"])
    d.mark(f"{count} {end}")
    d.say(f"{word} consecutive numbers add up to {total}. What is the {end} of them?",
          f"The sum of {word.lower()} numbers in a row is {total}. What is the {end} one?")
    middle = d.step("The middle", over(total, count))
    if end != "middle":
        middle = d.step(f"The {end}", (minus if end == "smallest" else plus)(middle, count // 2))
    d.answer = middle
    return d


def system(rng):
    """ax + y and x + y."""
    d, x, y, a = Draft(rng), rng.between(2, 80), rng.between(2, 80), rng.between(2, 9)
    p = rng.choice(LETTERS)
    q = rng.choice([letter for letter in LETTERS if letter != p])
    total, weighted, wanted = x + y, a * x + y, rng.percent(50)
    name = p if wanted else q
    d.mark("first" if wanted else "second")
    d.say(f"{a}{p} + {q} = {weighted} and {p} + {q} = {total}. What is {name}?",
          f"Find {name} if {p} + {q} = {total} and {a}{p} + {q} = {weighted}.")
    many = d.step(f"Difference, {a - 1}{p}" if a > 2 else f"Difference, {p}", minus(weighted, total))
    value = d.step(p, over(many, a - 1)) if a > 2 else many
    d.answer = value if wanted else d.step(q, minus(total, value))
    return d


FAMILIES = {linear: 5, both_sides: 3, secret: 4, sum_and_difference: 3, substitute: 3, consecutive: 2, system: 3}
