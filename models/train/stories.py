"""Stories: someone has things, one thing after another happens to them, and then there is a question.

A story is a chain of events drawn at random, each of one or two steps, so most stories are told only once.
"""
import words
from arithmetic import minus, over, plus, times
from draft import Draft, capital, divisors

FRACTIONS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
MULTIPLES = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}


class Story(Draft):
    def __init__(self, rng):
        super().__init__(rng)
        self.value = 0  # how many things there are now
        self.he, self.his, self.him = self.who.he, self.who.his, self.who.him
        self.things = self.thing.many

    def subject(self):
        """'Then he', 'He', 'Anna' ..., for an event in the middle of a story."""
        he, name = self.he, self.who.name
        return self.rng.choice([capital(he), capital(he), f"Then {he}", f"Then {name}", name, f"Later, {he}",
                                f"After that, {he}", f"Next, {he}"])


def start_count(story):
    rng, name, things = story.rng, story.who.name, story.things
    story.value = rng.between(2, 20) if rng.percent(30) else rng.between(10,
                                                                         150) if rng.percent(70) else rng.between(100,
                                                                                                                  900)
    n = story.value
    story.say(f"{name} has {n} {things}.", f"{name} has {n} {things}.", f"{name} starts with {n} {things}.",
              f"{name} had {n} {things}.", f"There are {n} {things} on {name}'s table.", f"{name} owns {n} {things}.",
              f"{name} collects {things} and has {n} of them.", f"{name} bought {n} {things}.",
              f"At first {name} has {n} {things}.", f"{name} picked {n} {things}.", f"{name} made {n} {things}.")


def start_groups(story):
    rng, name, things, boxes, box = story.rng, story.who.name, story.things, story.box.many, story.box.one
    n, each = rng.between(2, 30), rng.between(2, 30)
    story.say(f"{name} has {n} {boxes} of {things} with {each} {things} in each {box}.",
              f"{name} has {n} {boxes} with {each} {things} each.", f"{name} buys {n} {boxes} of {each} {things}.",
              f"{name} buys {n} {boxes} of {things}. Each {box} has {each} {things}.",
              f"There are {each} {things} in a {box}. {name} has {n} {boxes}.",
              f"{name} bought {n} {boxes} of {things}. There are {each} {things} in every {box}.",
              f"{name} fills {n} {boxes} with {each} {things} each.",
              f"A {box} holds {each} {things}. {name} fills {n} {boxes}.",
              f"{name} has {n} {boxes}. Each {box} contains {each} {things}.")
    story.value = story.step(f"{capital(things)} in the {boxes}", times(n, each))


def start_dozen(story):
    n, name, things = story.rng.between(2, 30), story.who.name, story.things
    story.say(f"{name} has {n} dozen {things}.", f"{name} buys {n} dozen {things}.",
              f"There are {n} dozen {things} in {name}'s shop.")
    story.value = story.step("A dozen is 12", times(n, 12))


def start_two(story):
    """Two amounts that come together."""
    a, b, name, things = story.rng.between(2, 200), story.rng.between(2, 200), story.who.name, story.things
    day, other = story.rng.choice([("Monday", "Tuesday"), ("Saturday", "Sunday"), ("the morning", "the afternoon")])
    on = "in" if day == "the morning" else "on"
    story.say(f"{name} picks {a} {things} {on} {day} and {b} {on} {other}.",
              f"{name} makes {a} {things} {on} {day} and {b} more {on} {other}.",
              f"{name} has {a} {things} in one {story.box.one} and {b} in another.",
              f"{name} buys {a} {things} {on} {day} and {b} {things} {on} {other}.",
              f"{name} has {a} big {things} and {b} small {things}.",
              f"{name} has {a} {things} at home and {b} at school.")
    story.value = story.step("Together", plus(a, b))


def gain(story):
    k = story.rng.between(2, 30) if story.rng.percent(60) else story.rng.between(20, 400)
    who, things, friend, name = story.subject(), story.things, story.friend.name, story.who.name
    story.say(f"{who} buys {k} more {things}.", f"{who} gets {k} more {things}.", f"{who} finds {k} {things}.",
              f"{friend} gives {story.him} {k} {things}.", f"{who} receives {k} {things} from {friend}.",
              f"{who} gets {k} more.", f"{who} bought {k} more {things}.", f"{who} found {k} more {things}.",
              f"{friend} gives {name} {k} more {things}.", f"{who} adds {k} {things}.",
              f"{who} makes {k} more {things}.")
    story.value = story.step(f"With {k} more", plus(story.value, k))


def lose(story):
    if story.value < 4:
        return False
    k = story.rng.between(2, min(story.value - 1, 500))
    who, things, friend = story.subject(), story.things, story.friend.name
    if story.thing.one in words.EDIBLE and story.rng.percent(40):
        story.say(f"{who} eats {k} {things}.", f"{who} eats {k} of them.", f"{friend} eats {k} of the {things}.",
                  f"{who} ate {k} {things}.")
    else:
        story.say(f"{who} gives {k} {things} to {friend}.", f"{who} loses {k} {things}.", f"{who} sells {k} {things}.",
                  f"{who} gives away {k} {things}.", f"{who} uses {k} of them.", f"{who} gives {friend} {k} {things}.",
                  f"{who} gave {k} {things} to {friend}.", f"{who} lost {k} of {story.his} {things}.",
                  f"{k} of the {things} are broken and thrown away.", f"{friend} takes {k} of the {things}.",
                  f"{who} sold {k} of them.", f"{who} gave away {k}.", f"{who} used {k} {things}.")
    story.value = story.step(f"Without {k}", minus(story.value, k))


def gain_groups(story):
    n, each = story.rng.between(2, 12), story.rng.between(2, 25)
    who, things, box, boxes = story.subject(), story.things, story.box.one, story.box.many
    story.say(f"{who} buys {n} {boxes} with {each} {things} in each {box}.",
              f"{who} gets {n} {boxes} of {each} {things}.",
              f"{who} buys {n} {boxes} of {each} {things} each.",
              f"{who} buys {n} more {boxes} with {each} {things} each.",
              f"{story.friend.name} brings {n} {boxes} of {each} {things} each.",
              f"Then {n} friends give {story.him} {each} {things} each.")
    new = story.step(f"New {things}", times(n, each))
    story.value = story.step("Together", plus(story.value, new))


def lose_groups(story):
    n, each = story.rng.between(2, 9), story.rng.between(2, 20)
    if n * each >= story.value:
        return False
    who, things = story.subject(), story.things
    story.say(f"{who} gives {each} {things} to each of {story.his} {n} friends.",
              f"{who} gives {n} friends {each} {things} each.", f"{who} uses {each} {things} a day for {n} days.",
              f"{who} sells {n} {story.box.many} of {each} {things}.",
              f"{who} gives away {each} {things} a day for {n} days.",
              f"{who} gave {each} {things} to each of {n} children.")
    gone = story.step(f"{capital(things)} gone", times(n, each))
    story.value = story.step("Left", minus(story.value, gone))


def give_fraction(story):
    parts = [d for d in FRACTIONS if story.value % d == 0 and story.value >= 2 * d]
    if not parts:
        return False
    d = story.rng.choice(parts)
    who, things, share = story.subject(), story.things, FRACTIONS[d]
    story.mark(f"by{d}")
    story.say(f"{who} gives {share} of the {things} to {story.friend.name}.",
              f"{who} sells {share} of {story.his} {things}.",
              f"{who} gives away {share} of them.",
              f"{who} gave {share} of {story.his} {things} to {story.friend.name}.",
              f"{who} loses {share} of the {things}.", f"{who} uses {share} of them.")
    gone = story.step(f"{capital(share)} of {story.value}", over(story.value, d))
    story.value = story.step("Left", minus(story.value, gone))


def multiply(story):
    m = story.rng.choice([2, 2, 3, 4])
    if story.value > 400:
        return False
    story.mark(f"times{m}")
    verb = {2: "doubles", 3: "triples", 4: "quadruples"}[m]
    story.say(f"{story.subject()} {verb} the number of {story.things}.", f"The number of {story.things} then {verb}.",
              f"{story.subject()} {verb} {story.his} {story.things}.")
    story.value = story.step(f"{capital(MULTIPLES[m])} as many", times(story.value, m))


def how_many_now(story):
    name, he, things = story.who.name, story.he, story.things
    if {"lose", "lose_groups", "give_fraction"} & set(story.marks) and story.rng.percent(40):
        story.say(f"How many {things} are left?", f"How many {things} does {he} have left?",
                  f"How many {things} remain?",
                  f"How many {things} does {name} have left?")
        return
    story.say(f"How many {things} does {name} have now?", f"How many {things} does {he} have now?",
              f"How many {things} does {name} have in the end?", f"How many {things} are there now?",
              f"How many {things} does {he} have?", f"How many {things} does {name} have in total?",
              f"Find the number of {things} that {name} has now.", f"How many {things} does {he} have altogether?")


def share(story):
    options = divisors(story.value) if story.value >= 4 else []
    options = [d for d in options if story.value // d <= 300]
    if not options:
        return False
    d, things, he = story.rng.choice(options), story.things, story.he
    box, boxes = story.box.one, story.box.many
    who = story.subject()
    if story.rng.percent(60):
        story.say(f"{who} shares the {things} equally among {d} friends. How many {things} does each friend get?",
                  f"{who} puts them equally into {d} {boxes}. How many {things} are in each {box}?",
                  f"{who} divides the {things} equally between {d} children. How many does each child get?",
                  f"If {he} shares them equally with {d} friends so that each friend gets the same number and none are"
                  f" left,"
                  f" how many {things} does each friend get?",
                  f"{who} splits them into {d} equal groups. How many {things} are in each group?")
    else:
        story.mark("size")
        story.say(f"{who} packs them into {boxes} of {d}. How many {boxes} does {he} need?",
                  f"{who} puts {d} {things} into each {box}. How many {boxes} does {he} fill?",
                  f"{who} gives {d} {things} to each friend until none are left. How many friends get {things}?",
                  f"If each {box} holds {d} {things}, how many {boxes} are needed?")
    story.value = story.step("Equal groups", over(story.value, d))


def sell(story):
    if not 1 < story.value <= 400:
        return False
    p, things = story.rng.between(2, 12), story.things
    story.say(f"{story.subject()} sells all of them for ${p} each. How much money does {story.he} get?",
              f"{story.subject()} sells the {things} at ${p} each. How many dollars does {story.he} earn?",
              f"Each {story.thing.one} costs ${p}. How much are the {things} worth in total?",
              f"If {story.he} sells every {story.thing.one} for ${p}, how much money does {story.he} make?")
    story.value = story.step("Money", times(story.value, p))
    return "$"


def compare(story):
    """How many the friend has."""
    k, name, friend, things = story.rng.between(2, 40), story.who.name, story.friend.name, story.things
    kind = story.rng.choice(["more", "fewer", "times"])
    if kind == "fewer" and k >= story.value:
        kind = "more"
    m = story.rng.between(2, 5)
    if kind == "times" and story.value > 500:
        kind = "more"
    story.mark(kind)
    now = story.rng.choice(["", " now"]) if len(story.sentences) > 1 else ""
    if kind == "times":
        story.mark(str(m))
        story.say(f"{friend} has {MULTIPLES[m]} as many {things} as {name}{now}.",
                  f"{friend} has {MULTIPLES[m] if m == 2 else f'{m} times'} as many as {name}{now}.")
        return story.step(f"{friend} has", times(story.value, m))
    less = story.rng.choice(["fewer", "less"])
    story.say(f"{friend} has {k} {kind if kind == 'more' else less} {things} than {name}{now}.",
              f"{friend} has {k} {kind} than {name}{now}.")
    return story.step(f"{friend} has", (plus if kind == "more" else minus)(story.value, k))


def friend_has(story):
    story.value = compare(story)
    story.say(f"How many {story.things} does {story.friend.name} have?", f"How many does {story.friend.name} have?")


def both_have(story):
    theirs = compare(story)
    story.value = story.step("Together", plus(story.value, theirs))
    story.say("How many do they have together?", f"How many {story.things} do they have altogether?",
              f"How many {story.things} do {story.who.name} and {story.friend.name} have in total?",
              f"How many {story.things} do the two have together?")


EVENTS = {1: (gain, lose, gain, lose, multiply), 2: (gain_groups, lose_groups, give_fraction)}
ENDINGS = {0: (how_many_now,), 1: (share, sell, friend_has, share), 2: (both_have,)}


def draw_steps(rng):
    return rng.choice([1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4])


def story(rng):
    """Draws until a story has the wanted number of steps; an event that does not fit is drawn anew."""
    wanted = draw_steps(rng)
    while True:
        tale = Story(rng)
        start = rng.choice([start_count] * 6 + [start_groups] * 3 + [start_two] * 2 + [start_dozen])
        start(tale)
        tale.mark(start.__name__)
        ending_steps = rng.choice([n for n in (0, 0, 1, 1, 2) if n <= wanted - len(tale.steps)])
        while len(tale.steps) < wanted - ending_steps:
            room = wanted - ending_steps - len(tale.steps)
            event = rng.choice(EVENTS[rng.between(1, min(room, 2))])
            if event(tale) is not False:
                tale.mark(event.__name__)
        ending = rng.choice(ENDINGS[ending_steps])
        unit = ending(tale)
        if unit is False or tale.value > 9999 or tale.value < 0 or not tale.steps:
            continue
        tale.mark(ending.__name__)
        tale.answer = f"{unit or ''}{tale.value}"
        return tale
