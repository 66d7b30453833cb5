"""Problems in which several amounts stand beside each other: two people, several kinds, something unknown, a bus."""
import words
from arithmetic import minus, over, plus, times
from draft import Draft, capital
from stories import MULTIPLES

COLORS = "red blue green yellow white black brown orange purple pink".split()


def transfer(rng):
    """One gives to the other."""
    d = Draft(rng)
    a, b = rng.between(10, 200), rng.between(2, 200)
    k = rng.between(2, a - 1)
    name, friend, many = d.who.name, d.friend.name, d.thing.many
    d.say(f"{name} has {a} {many} and {friend} has {b} {many}.", f"{name} has {a} {many}. {friend} has {b} {many}.",
          f"{name} has {a} {many}, {friend} has {b}.")
    d.say(f"{name} gives {k} {many} to {friend}.", f"{name} gives {friend} {k} {many}.",
          f"{friend} gets {k} {many} from {name}.")
    kind = rng.choice(["giver", "taker", "difference", "both"])
    d.mark(kind)
    if kind == "both":
        d.say("How many do they have together?", f"How many {many} do they have in all?")
        d.answer = d.step("Giving changes nothing for the two together", plus(a, b))
    elif kind == "giver":
        d.say(f"How many {many} does {name} have now?", f"How many {many} does {name} have left?")
        d.answer = d.step(f"{name} has", minus(a, k))
    else:
        theirs = d.step(f"{friend} has", plus(b, k))
        if kind == "taker":
            d.say(f"How many {many} does {friend} have now?", f"How many does {friend} have then?")
            d.answer = theirs
        else:
            mine = d.step(f"{name} has", minus(a, k))
            more, less = (friend, name) if theirs >= mine else (name, friend)
            d.say(f"How many more {many} does {more} have than {less} now?",
                  f"How many more does {more} have than {less}?")
            d.answer = d.step("Difference", minus(max(mine, theirs), min(mine, theirs)))
    return d


def kinds(rng):
    """Several colors in one place."""
    d = Draft(rng)
    first, second, third = rng.below(3), 3 + rng.below(3), 6 + rng.below(4)
    x, y, z = COLORS[first], COLORS[second], COLORS[third]
    a, b, c = rng.between(2, 150), rng.between(2, 150), rng.between(2, 150)
    many = d.thing.many
    where = rng.choice([f"{d.who.name} has", f"In a {d.box.one} there are", f"There are", f"{d.who.name} buys",
                        f"{d.who.name} counts"])
    kind = rng.choice(["two", "three", "rest", "difference", "chain"])
    d.mark(kind)
    if kind == "two":
        d.say(f"{where} {a} {x} {many} and {b} {y} {many}.", f"{where} {a} {x} and {b} {y} {many}.")
        d.say(f"How many {many} is that in total?", f"How many {many} are there altogether?",
              f"How many {many} are there in all?")
        d.answer = d.step("In all", plus(a, b))
    elif kind == "three":
        d.say(f"{where} {a} {x} {many}, {b} {y} {many} and {c} {z} {many}.",
              f"{where} {a} {x}, {b} {y} and {c} {z} {many}.")
        d.say(f"How many {many} are there in total?", f"How many {many} is that altogether?")
        d.answer = d.step("In all", plus(a, b, c))
    elif kind == "rest":
        d.say(f"{where} {a + b + c} {many}. {a} of them are {x}, {b} are {y} and the rest are {z}.",
              f"{where} {a + b + c} {many}: {a} {x} ones, {b} {y} ones, and the others are {z}.")
        known = d.step(f"{capital(x)} and {y}", plus(a, b))
        d.say(f"How many {z} {many} are there?", f"How many are {z}?")
        d.answer = d.step(capital(z), minus(a + b + c, known))
    elif kind == "difference":
        a, b = max(a, b) + 1, min(a, b)
        d.say(f"{where} {a} {x} {many} and {b} {y} {many}.", f"{where} {b} {y} {many} and {a} {x} {many}.")
        d.say(f"How many more {x} {many} than {y} {many} are there?",
              f"How many fewer {y} {many} than {x} {many} are there?")
        d.answer = d.step("Difference", minus(a, b))
    else:
        d.say(f"{where} {a} {x} {many} and {b} more {y} {many} than {x} ones.",
              f"{where} {a} {x} {many}. There are {b} more {y} ones than {x} ones.")
        other = d.step(capital(y), plus(a, b))
        d.say(f"How many {many} are there altogether?", f"How many {many} is that in total?")
        d.answer = d.step("In all", plus(a, other))
    return d


def missing(rng):
    """What was there before, what came or went, or what is still needed."""
    d = Draft(rng)
    name, he, many, friend = d.who.name, d.who.he, d.thing.many, d.friend.name
    a, k = rng.between(2, 300), rng.between(2, 300)
    kind = rng.choice(["given", "got", "before", "before_gain", "needed", "price"])
    d.mark(kind)
    if kind == "given":
        d.say(f"{name} had {a + k} {many}. {capital(he)} gave some to {friend} and has {a} left.",
              f"{name} has {a + k} {many}. After giving some away, {he} has {a} {many} left.")
        d.say(f"How many {many} did {he} give away?", f"How many did {he} give away?")
        d.answer = d.step("Given away", minus(a + k, a))
    elif kind == "got":
        d.say(f"{name} had {a} {many}. Then {he} bought some more and now has {a + k}.",
              f"{name} had {a} {many}. Now {he} has {a + k} {many}.")
        d.say(f"How many {many} did {he} get?", f"How many more {many} does {he} have than before?")
        d.answer = d.step("New", minus(a + k, a))
    elif kind == "before":
        d.say(f"After giving {k} {many} to {friend}, {name} has {a} {many} left.",
              f"{name} gave away {k} {many} and has {a} left.")
        d.say(f"How many {many} did {name} have at first?", f"How many {many} did {he} have before?")
        d.answer = d.step("At first", plus(a, k))
    elif kind == "before_gain":
        d.say(f"{name} got {k} {many} from {friend} and now has {a + k} {many}.",
              f"After buying {k} {many}, {name} has {a + k} {many}.")
        d.say(f"How many {many} did {name} have at first?", f"How many {many} did {he} have before?")
        d.answer = d.step("At first", minus(a + k, k))
    elif kind == "needed":
        d.say(f"{name} has {a} {many} and needs {a + k}.", f"{name} wants {a + k} {many} and already has {a}.",
              f"{name} needs {a + k} {many}. {capital(he)} has {a}.")
        d.say(f"How many more {many} does {he} need?", f"How many {many} are missing?")
        d.answer = d.step("Missing", minus(a + k, a))
    else:
        d.say(f"{name} has ${a}. {capital(he)} wants something that costs ${a + k}.",
              f"Something costs ${a + k}, and {name} has ${a}.")
        d.say(f"How much more money does {he} need?", f"How many dollars are missing?")
        d.answer = f"${d.step('Missing', minus(a + k, a))}"
    return d


def chain(rng):
    """Three people, each told by the one before."""
    d = Draft(rng)
    third = words.draw_person(rng, d.who, d.friend)
    name, friend, last, many = d.who.name, d.friend.name, third.name, d.thing.many
    value = first = rng.between(4, 60)
    amounts = [first]
    d.say(f"{name} has {first} {many}.", f"{name} collected {first} {many}.")
    for person, before in ((friend, name), (last, friend)):
        k, m = rng.between(2, 30), rng.between(2, 4)
        kind = rng.choice(["more", "fewer", "times", "half"])
        if kind == "fewer" and k >= value or kind == "half" and value % 2:
            kind = "times"
        d.mark(f"{kind}{m if kind == 'times' else ''}")
        if kind == "times":
            d.say(f"{person} has {MULTIPLES[m]} as many as {before}.",
                  f"{person} has {MULTIPLES[m]} as many {many} as {before}.")
            value = d.step(f"{person} has", times(value, m))
        elif kind == "half":
            d.say(f"{person} has half as many as {before}.", f"{person} has half as many {many} as {before}.")
            value = d.step(f"{person} has", over(value, 2))
        else:
            d.say(f"{person} has {k} {kind} than {before}.", f"{person} has {k} {kind} {many} than {before}.")
            value = d.step(f"{person} has", (plus if kind == "more" else minus)(value, k))
        amounts.append(value)
    if rng.percent(50):
        d.say(f"How many {many} does {last} have?", f"How many does {last} have?")
        d.answer = value
    else:
        d.mark("sum")
        d.say("How many do they have altogether?", f"How many {many} do all three have together?",
              f"How many {many} do they have in total?")
        d.answer = d.step("All three", plus(*amounts))
    return d


def passengers(rng):
    """People get on and off."""
    d = Draft(rng)
    what, people = rng.choice([("bus", "passengers"), ("train", "passengers"), ("tram", "people"), ("boat", "people"),
                               ("lift", "people")])
    value = rng.between(10, 90)
    d.say(f"A {what} has {value} {people} on board.", f"There are {value} {people} on a {what}.",
          f"A {what} starts with {value} {people}.")
    for stop in ("first", "second")[:rng.choice([1, 2])]:
        off, on = rng.between(2, value - 1), rng.between(2, 40)
        d.mark(stop)
        d.say(f"At the {stop} stop, {off} {people} get off and {on} get on.",
              f"At the {stop} stop {off} get off and {on} {people} get on.")
        value = d.step(f"After {off} get off", minus(value, off))
        value = d.step(f"After {on} get on", plus(value, on))
    d.say(f"How many {people} are on the {what} now?", f"How many {people} are there on the {what} then?",
          f"How many {people} are left on the {what}?")
    d.answer = value
    return d


def purse(rng):
    """Money comes and goes."""
    d = Draft(rng)
    name, he = d.who.name, d.who.he
    value = rng.between(20, 500)
    d.say(f"{name} has ${value}.", f"{name} had ${value}.", f"{name} starts with ${value}.",
          f"{name} has {value} dollars.")
    for _ in range(rng.between(1, 4)):
        who = rng.choice([capital(he), f"Then {he}", name])
        if rng.percent(55) and value > 4:
            k = rng.between(2, value - 1)
            d.mark("out")
            d.say(f"{who} spends ${k} on {rng.choice(words.GOODS).many}.",
                  f"{who} pays ${k} for a {rng.choice(words.GOODS).one}.",
                  f"{who} gives ${k} to {d.friend.name}.", f"{who} buys a {rng.choice(words.GOODS).one} for ${k}.",
                  f"{who} spends ${k}.")
            value = d.step("Left", minus(value, k))
        else:
            k = rng.between(2, 300)
            d.mark("in")
            d.say(f"{who} earns ${k}.", f"{who} gets ${k} from {d.friend.name}.", f"{who} finds ${k}.",
                  f"{who} earns ${k} for work in the garden.")
            value = d.step("Now", plus(value, k))
    d.say(f"How much money does {he} have now?", f"How much money does {name} have in the end?",
          f"How much money does {he} have left?",
          f"How many dollars does {name} have?", "How much is left?")
    d.answer = f"${value}"
    return d


FAMILIES = {transfer: 5, kinds: 6, missing: 7, chain: 6, passengers: 3, purse: 7}
