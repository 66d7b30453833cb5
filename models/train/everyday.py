"""Problems about packing with remainders, shapes, seats, averages, units and bare sums."""
import words
from arithmetic import minus, over, plus, times
from draft import Draft, capital
from stories import MULTIPLES


def remainder(rng):
    """Whole groups and what is left over."""
    d = Draft(rng)
    name, many, boxes, box = d.who.name, d.thing.many, d.box.many, d.box.one
    size, groups = rng.between(3, 12), rng.between(2, 12)
    left = rng.between(1, size - 1)
    n = size * groups + left
    kind = rng.choice(["left", "full", "needed"])
    d.mark(kind)
    d.say(f"{name} packs {n} {many} into {boxes} of {size}.",
          f"{name} has {n} {many} and puts {size} of them into each {box}.",
          f"A {box} holds {size} {many}. {name} has {n} {many} to pack.",
          f"{name} has {n} {many}. Each {box} holds {size} {many}.")
    packed = d.step(f"{groups} full {boxes} hold", times(groups, size))
    over_count = d.step("Left over", minus(n, packed))
    if kind == "left":
        d.say(f"How many {many} are left over?", f"How many {many} do not fit into a full {box}?",
              f"How many {many} remain?")
        d.answer = over_count
    elif kind == "full":
        d.say(f"How many {boxes} are full?", f"How many full {boxes} does {d.who.he} get?")
        d.answer = groups
    else:
        d.say(f"How many {boxes} are needed for all of the {many}?",
              f"How many {boxes} does {d.who.he} need to pack them all?")
        d.answer = d.step(f"One more {box}", plus(groups, 1))
    return d


def rectangle(rng):
    d = Draft(rng)
    a, b = rng.between(2, 60), rng.between(2, 40)
    what = rng.choice(["garden", "field", "room", "playground", "yard", "floor", "park"])
    unit = rng.choice(["meters", "feet", "m"])
    d.say(f"A rectangular {what} is {a} {unit} long and {b} {unit} wide.",
          f"{d.who.name}'s {what} is {a} {unit} long and {b} {unit} wide.",
          f"A {what} has a length of {a} {unit} and a width of {b} {unit}.")
    p = rng.between(2, 12)
    kind = rng.choice(["area", "perimeter", "cover", "fence"])
    d.mark(kind)
    if kind in ("area", "cover"):
        value = d.step("Area", times(a, b))
        if kind == "area":
            d.say(f"What is its area in square {unit}?", "What is the area?")
        else:
            value = d.step("Cost", times(value, p))
            d.say(f"Each square {unit.rstrip('s') if unit != 'feet' else 'foot'} of carpet costs ${p}. How much does"
                  f" it cost to cover it all?")
    else:
        half = d.step("Length and width", plus(a, b))
        value = d.step("Perimeter", times(half, 2))
        if kind == "perimeter":
            d.say("What is its perimeter?", f"How many {unit} of fence go around it?",
                  "How long is the way once around it?")
        else:
            value = d.step("Cost", times(value, p))
            d.say(f"A fence costs ${p} per {unit.rstrip('s') if unit != 'feet' else 'foot'}. How much does a fence all"
                  f" around it cost?")
    d.answer = f"${value}" if kind in ("cover", "fence") else value
    return d


def rows(rng):
    d = Draft(rng)
    where, seat, taken = rng.choice([("theater", "seats", "taken"), ("garden", "trees", "apple trees"),
                                     ("hall", "chairs", "broken"),
                                     ("bus station", "seats", "free"), ("field", "plants", "watered"),
                                     ("library", "books", "lent out")])
    r, s = rng.between(3, 40), rng.between(3, 40)
    t = rng.between(2, r * s - 1)
    d.say(f"A {where} has {r} rows of {s} {seat}.", f"There are {r} rows with {s} {seat} each in a {where}.",
          f"A {where} has {r} rows. Each row has {s} {seat}.")
    total = d.step(f"All {seat}", times(r, s))
    if rng.percent(30):
        d.say(f"How many {seat} are there?", f"How many {seat} does the {where} have in all?")
    else:
        d.mark("not")
        d.say(f"{t} of the {seat} are {taken}. How many are not?",
              f"If {t} {seat} are {taken}, how many are not {taken}?")
        total = d.step(f"Not {taken}", minus(total, t))
    d.answer = total
    return d


def several_days(rng):
    """Amounts on two or three days, each told by the one before."""
    d = Draft(rng)
    first = rng.below(5)
    days = words.DAYS[first:first + 3]
    a, k, m = rng.between(3, 80), rng.between(2, 40), rng.choice([2, 3])
    many = d.thing.many
    verb = rng.choice(["sells", "picks", "makes", "finds", "collects", "counts"])
    more = rng.percent(60) or k >= a
    d.mark("more" if more else "fewer")
    d.say(f"On {days[0]} {d.who.name} {verb} {a} {many}. On {days[1]} {d.who.he} {verb} {k}"
          f" {'more' if more else 'fewer'} than on {days[0]}.",
          f"{d.who.name} {verb} {a} {many} on {days[0]} and {k} {'more' if more else 'fewer'} {many} than that on"
          f" {days[1]}.")
    second = d.step(days[1], (plus if more else minus)(a, k))
    if rng.percent(50):
        d.mark(f"times{m}")
        d.say(f"On {days[2]} {d.who.he} {verb} {MULTIPLES[m]} as many as on {days[1]}.")
        third = d.step(days[2], times(second, m))
        amounts = (a, second, third)
    else:
        amounts = (a, second)
    d.say(f"How many {many} is that in total?", f"How many {many} is that altogether?",
          f"How many {many} are there in all?")
    d.answer = d.step("In all", plus(*amounts))
    return d


def average(rng):
    d = Draft(rng)
    count = rng.choice([2, 3, 4])
    mean = rng.between(5, 90)
    values = [rng.between(max(1, mean - 20), mean + 20) for _ in range(count - 1)]
    last = mean * count - sum(values)
    if last < 1:
        return average(rng)
    values.append(last)
    listed = ", ".join(map(str, values[:-1])) + f" and {values[-1]}"
    d.say(f"{d.who.name} scores {listed} points in {count} games.",
          f"In {count} tests {d.who.name} gets {listed} points.",
          f"{d.who.name} finds {listed} {d.thing.many} on {count} days.")
    total = d.step("Sum", plus(*values))
    d.say("What is the average?", "What is the mean?", "How many is that on average?")
    d.answer = d.step("Average", over(total, count))
    return d


def legs(rng):
    d = Draft(rng)
    (x, p), (y,
             q) = rng.choice([(("chickens", 2), ("cows", 4)), (("ducks", 2), ("sheep", 4)),
                              (("bicycles", 2), ("cars", 4)),
                                 (("tricycles", 3), ("cars", 4)), (("spiders", 8), ("ants", 6)),
                              (("geese", 2), ("goats", 4))])
    part = "wheels" if "cars" == y else "legs"
    a, b = rng.between(2, 50), rng.between(2, 50)
    d.mark(x)
    d.say(f"There are {a} {x} and {b} {y}.", f"{d.who.name} sees {a} {x} and {b} {y}.",
          f"{d.who.name} counts {a} {x} and {b} {y}.")
    d.say(f"How many {part} do they have in total?", f"How many {part} is that altogether?")
    first = d.step(f"{capital(x)} have {p} {part} each", times(a, p))
    second = d.step(f"{capital(y)} have {q} {part} each", times(b, q))
    d.answer = d.step("Together", plus(first, second))
    return d


UNITS = [("weeks", "days", 7), ("days", "hours", 24), ("hours", "minutes", 60), ("minutes", "seconds", 60),
         ("years", "months", 12),
         ("meters", "centimeters", 100), ("dozen", "eggs", 12), ("feet", "inches", 12), ("dollars", "cents", 100)]


def units(rng):
    d = Draft(rng)
    large, small, size = rng.choice(UNITS)
    n, extra = rng.between(2, 20), rng.between(1, size - 1)
    d.mark(large)
    if rng.percent(50):
        d.say(f"How many {small} are in {n} {large}?", f"How many {small} are {n} {large}?",
              f"Convert {n} {large} to {small}.")
        d.answer = d.step(capital(small), times(n, size))
    else:
        d.mark("extra")
        d.say(f"How many {small} are {n} {large} and {extra} {small}?",
              f"{d.who.name} counts {n} {large} and {extra} {small}. How many {small} is that?")
        value = d.step(f"{capital(large)} in {small}", times(n, size))
        d.answer = d.step("Together", plus(value, extra))
    return d


def recipe(rng):
    d = Draft(rng)
    people, each, guests = rng.between(2, 10), rng.between(2, 12), rng.between(2, 20)
    what = rng.choice(["eggs", "cups of flour", "potatoes", "spoons of sugar", "grams of salt", "apples", "tomatoes"])
    d.say(f"A recipe for {people} people needs {people * each} {what}.",
          f"{d.who.name} uses {people * each} {what} for {people} people.")
    one = d.step("For one person", over(people * each, people))
    d.say(f"How many {what} are needed for {guests} people?",
          f"How many {what} does {d.who.he} need for {guests} people?")
    d.answer = d.step(f"For {guests} people", times(one, guests))
    return d


def worked_pair(rng, sign):
    """(a, b, the worked result) of one operation that comes out even."""
    a, b = rng.between(2, 999), rng.between(2, 999)
    if sign == "+":
        return a, b, plus(a, b)
    if sign == "-":
        return max(a, b), min(a, b), minus(max(a, b), min(a, b))
    if sign == "x":
        a, b = rng.between(2, 99), rng.between(2, 99)
        return a, b, times(a, b)
    b = rng.between(2, 12)
    a = b * rng.between(2, 99)
    return a, b, over(a, b)


def bare(rng):
    """Sums without a story: one operation, or two in the order of precedence."""
    d = Draft(rng)
    sign = rng.choice("+-x/")
    a, b, worked = worked_pair(rng, sign)
    d.mark({"+": "plus", "-": "minus", "x": "times", "/": "over"}[sign])
    shown = rng.choice(["x", "x", "*", "times"]) if sign == "x" else rng.choice(["/",
                                                                                 "divided by"]) if sign == "/" else sign
    asked, c = f"{a} {shown} {b}", rng.between(2, 99)
    value = d.step("Result", worked)
    kind = rng.choice(["one", "one", "one", "add", "subtract", "last", "scale"])
    if kind == "subtract" and c > value or kind == "scale" and value > 999:
        kind = "add"
    d.mark(kind)
    if kind == "add":
        asked, value = f"{asked} + {c}", d.step("Then", plus(value, c))
    elif kind == "subtract":
        asked, value = f"{asked} - {c}", d.step("Then", minus(value, c))
    elif kind == "last" and sign in "x/":
        asked, value = f"{c} + {asked}", d.step("Then", plus(c, value))
    elif kind == "scale":
        k = rng.between(2, 9)
        asked, value = f"({asked}) x {k}", d.step("Then", times(value, k))
    d.say(f"What is {asked}?", f"Calculate {asked}.", f"{asked} = ?", f"How much is {asked}?", asked,
          f"Compute {asked}.", f"Work out {asked}.")
    d.answer = value
    return d


FAMILIES = {remainder: 5, rectangle: 4, rows: 4, several_days: 6, average: 4, legs: 3, units: 4, recipe: 4, bare: 8}
