"""Problems about distance, time, rates, age, parts of a whole and shapes."""
import words
from arithmetic import minus, over, plus, times
from draft import Draft, capital, easy_divisor
from stories import FRACTIONS, MULTIPLES


def travel(rng):
    d = Draft(rng)
    name, he = d.who.name, d.who.he
    way, low, high = rng.choice([("drives", 30, 90), ("cycles", 8, 25), ("walks", 2, 6), ("rides a train", 50, 150)])
    v, t = rng.between(low, high), rng.between(2, 9)
    unit = rng.choice(["km", "miles", "kilometers"])
    kind = rng.choice(["distance", "time", "speed", "legs", "round", "left"])
    d.mark(kind)
    if kind == "distance":
        d.say(f"{name} {way} at {v} {unit} per hour for {t} hours.",
              f"{name} {way} for {t} hours at a speed of {v} {unit} per hour.")
        d.say(f"How far does {he} go?", f"How many {unit} does {name} travel?", f"What distance does {he} cover?")
        d.answer = d.step("Distance", times(v, t))
    elif kind == "time":
        v = v if v <= 12 else v - v % 10 + 10
        d.say(f"{name} {way} {v * t} {unit} at {v} {unit} per hour.",
              f"{name} has to go {v * t} {unit} and {way} at {v} {unit} per hour.")
        d.say("How many hours does it take?", f"How long does {he} need, in hours?", "How many hours is the trip?")
        d.answer = d.step("Hours", over(v * t, v))
    elif kind == "speed":
        d.say(f"{name} {way} {v * t} {unit} in {t} hours.", f"In {t} hours {name} {way} {v * t} {unit}.")
        speed = d.step("Per hour", over(v * t, t))
        if rng.percent(50):
            d.mark("more")
            more = rng.between(2, 9)
            d.say(f"At the same speed, how far does {he} go in {more} hours?",
                  f"How many {unit} does {he} go in {more} hours at this speed?")
            d.answer = d.step(f"In {more} hours", times(speed, more))
        else:
            d.say(f"How many {unit} per hour is that?", f"What is {d.who.his} speed in {unit} per hour?")
            d.answer = speed
    elif kind == "round":
        days = rng.between(2, 20)
        d.say(f"{name} {way} {v} {unit} to work and the same way back home each day.",
              f"{name}'s school is {v} {unit} away, and {he} goes there and back every day.")
        day = d.step("There and back", times(v, 2))
        d.say(f"How many {unit} is that in {days} days?", f"How far does {he} go in {days} days?")
        d.answer = d.step(f"In {days} days", times(day, days))
    elif kind == "legs":
        w, u = rng.between(low, high), rng.between(2, 6)
        d.say(f"{name} {way} for {t} hours at {v} {unit} per hour and then for {u} hours at {w} {unit} per hour.",
              f"First {name} {way} {t} hours at {v} {unit} per hour, then {u} hours at {w} {unit} per hour.")
        first, second = d.step("First part", times(v, t)), d.step("Second part", times(w, u))
        d.say(f"How far does {he} go in total?", f"How many {unit} does {name} travel altogether?")
        d.answer = d.step("Together", plus(first, second))
    else:
        extra = rng.between(2, 200)
        d.say(f"A trip is {v * t + extra} {unit} long. {name} {way} at {v} {unit} per hour for {t} hours.",
              f"{name} {way} at {v} {unit} per hour. The whole way is {v * t + extra} {unit}, and {he} has gone for"
              f" {t} hours.")
        gone = d.step("Distance so far", times(v, t))
        d.say(f"How many {unit} are left?", f"How far does {he} still have to go?")
        d.answer = d.step("Left", minus(v * t + extra, gone))
    return d


def rate(rng):
    """A machine or a person makes things at a steady rate."""
    d = Draft(rng)
    many, per = d.thing.many, rng.choice(["hour", "day", "minute"])
    n, t, u = rng.between(2, 40), rng.between(2, 12), rng.between(2, 12)
    maker = rng.choice(["A machine", "A factory", "A bakery", "A workshop", d.who.name])
    kind = rng.choice(["plain", "scale", "two", "until"])
    d.mark(kind)
    if kind == "plain":
        d.say(f"{maker} makes {n} {many} per {per}.", f"{maker} makes {n} {many} every {per}.")
        made = "is that" if maker == d.who.name else "does it make"
        d.say(f"How many {many} {made} in {t} {per}s?",
              f"How many {many} are made in {t} {per}s?")
        d.answer = d.step(f"In {t} {per}s", times(n, t))
    elif kind == "scale":
        d.say(f"{maker} makes {n * t} {many} in {t} {per}s.",
              f"In {t} {per}s, {maker[0].lower() + maker[1:] if maker != d.who.name else maker} makes {n * t} {many}.")
        one = d.step(f"In one {per}", over(n * t, t))
        d.say(f"How many {many} are made in {u} {per}s?", f"At the same rate, how many {many} are made in {u} {per}s?")
        d.answer = d.step(f"In {u} {per}s", times(one, u))
    elif kind == "two":
        m = rng.between(2, 40)
        d.say(f"{d.who.name} makes {n} {many} per {per} and {d.friend.name} makes {m} {many} per {per}.",
              f"One machine makes {n} {many} a {per}, another makes {m} {many} a {per}.")
        both = d.step(f"Together in one {per}", plus(n, m))
        d.say(f"How many {many} do they make together in {t} {per}s?", f"How many {many} are made in {t} {per}s?")
        d.answer = d.step(f"In {t} {per}s", times(both, t))
    else:
        n = easy_divisor(rng)
        d.say(f"{maker} makes {n} {many} per {per}.", f"Every {per} {d.who.name} makes {n} {many}.")
        d.say(f"How many {per}s does it take to make {n * t} {many}?",
              f"After how many {per}s are there {n * t} {many}?")
        d.answer = d.step(f"{capital(per)}s", over(n * t, n))
    return d


def reading(rng):
    d = Draft(rng)
    d.thing = words.Thing("page", "pages")
    name, he, a, t, k = d.who.name, d.who.he, rng.between(5, 60), rng.between(2, 9), rng.between(2, 9)
    rest = k * rng.between(3, 40)
    total = a * t + rest
    d.say(f"{name} reads a book with {total} pages. {capital(he)} reads {a} pages a day for {t} days.",
          f"A book has {total} pages. {name} reads {a} pages every day for {t} days.",
          f"{name} has a book of {total} pages and reads {a} pages each day for {t} days.")
    done = d.step("Pages read", times(a, t))
    left = d.step("Pages left", minus(total, done))
    if rng.percent(50):
        d.mark("finish")
        d.say(f"How many pages a day must {he} read to finish the rest in {k} days?",
              f"{capital(he)} reads the rest in {k} days, the same number each day. How many pages is that a day?")
        left = d.step("Per day", over(left, k))
    else:
        d.say("How many pages are left?", f"How many pages does {he} still have to read?")
    d.answer = left
    return d


def ages(rng):
    d = Draft(rng)
    third = words.draw_person(rng, d.who, d.friend)
    a, k, m, years = rng.between(4, 40), rng.between(2, 15), rng.between(2, 4), rng.between(2, 20)
    name, friend = d.who.name, d.friend.name
    older = rng.percent(50) or k >= a - 1
    d.say(f"{name} is {a} years old. {friend} is {k} years {'older' if older else 'younger'} than {name}.",
          f"{name} is {a}. {friend} is {k} years {'older' if older else 'younger'}.")
    d.mark("older" if older else "younger")
    value = d.step(f"{friend}'s age", (plus if older else minus)(a, k))
    kind = rng.choice(["friend", "future", "third", "sum", "third_sum"])
    d.mark(kind)
    if kind == "friend":
        d.say(f"How old is {friend}?", f"What is {friend}'s age?")
    elif kind == "future":
        d.say(f"How old will {friend} be in {years} years?")
        value = d.step(f"In {years} years", plus(value, years))
    elif kind == "sum":
        d.say("How old are they together?", "What is the sum of their ages?")
        value = d.step("Together", plus(a, value))
    else:
        d.mark(str(m))
        d.say(f"{third.name} is {MULTIPLES[m]} as old as {friend}.")
        old = d.step(f"{third.name}'s age", times(value, m))
        if kind == "third_sum":
            d.say("What is the sum of their three ages?", "How old are all three together?")
            old = d.step("All three", plus(a, value, old))
        else:
            d.say(f"How old is {third.name}?")
        value = old
    d.answer = value
    return d


def part_of_group(rng):
    """A fraction or a percentage of a group, and the rest of it."""
    d = Draft(rng)
    group, one, rest = rng.choice([("students in a class", "girls", "boys"), ("people on a bus", "adults", "children"),
                                   ("animals on a farm", "cows", "sheep"), ("cars in a parking lot", "red", "not red"),
                                   ("balls in a bag", "blue", "not blue"), ("members in a club", "women", "men"),
                                   ("fish in a pond", "gold", "not gold"), ("books on a shelf", "new", "old")])
    if rng.percent(60):
        p = rng.choice([2, 3, 4, 5])
        n = p * rng.between(3, 60)
        d.mark(f"by{p}")
        d.say(f"There are {n} {group}. {capital(FRACTIONS[p])} of them are {one}.",
              f"Of {n} {group}, {FRACTIONS[p]} are {one}.", f"There are {n} {group}. 1/{p} of them are {one}.")
        value = d.step(f"{capital(FRACTIONS[p])} of {n}", over(n, p))
    else:
        tenths = rng.between(1, 9)
        n = 10 * rng.between(2, 60)
        d.mark("percent")
        d.say(f"There are {n} {group}. {tenths * 10}% of them are {one}.", f"Of {n} {group}, {tenths * 10}% are {one}.")
        value = d.step(f"10% of {n}", over(n, 10))
        if tenths > 1:
            value = d.step(f"{tenths * 10}% of {n}", times(value, tenths))
    if rng.percent(50):
        d.mark("rest")
        d.say(f"How many are {rest}?", f"How many of them are {rest}?",
              "And the others are " + rest + f". How many are {rest}?")
        value = d.step("The rest", minus(n, value))
    else:
        d.say(f"How many are {one}?", f"How many of them are {one}?")
    d.answer = value
    return d


FAMILIES = {travel: 7, rate: 5, reading: 3, ages: 6, part_of_group: 5}
