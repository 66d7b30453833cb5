"""Problems about what is somewhere: animals, visitors, and amounts that are measured rather than counted."""
from arithmetic import minus, over, plus, times
from draft import Draft, capital, divisors

# who, where, how they leave, how they come
CROWDS = [("birds", "in a tree", "fly away", "fly in"), ("ducks", "on a lake", "swim away", "join them"),
          ("children", "on a playground", "go home", "come to play"), ("people", "in a park", "leave", "arrive"),
          ("guests", "at a party", "leave", "arrive"), ("visitors", "in a museum", "leave", "come in"),
          ("cars", "in a garage", "drive away", "drive in"), ("sheep", "in a field", "run away", "are brought in"),
          ("fish", "in a pond", "are caught", "are put in"), ("students", "in a library", "go to class", "come in"),
          ("bees", "on a flower bed", "fly off", "land on it"), ("customers", "in a shop", "go out", "come in"),
          ("boats", "in a harbor", "sail away", "come in"), ("monkeys", "on a rock", "jump down", "climb up")]
# what, its unit, how it gets less, how it gets more
AMOUNTS = [("A tank holds {n} liters of water.", "liters", "leak out", "are added"),
           ("A bucket has {n} liters of paint.", "liters", "are used", "are poured in"),
           ("A sack has {n} kg of rice.", "kg", "are sold", "are put in"),
           ("A baker has {n} kg of flour.", "kg", "are used", "are delivered"),
           ("A rope is {n} meters long.", "meters", "are cut off", "are tied on"),
           ("A roll has {n} meters of cloth.", "meters", "are sold", "are added"),
           ("A candle is {n} mm tall.", "mm", "burn down", "are added"),
           ("A car has {n} liters of fuel.", "liters", "are used", "are filled in"),
           ("A truck carries {n} kg of sand.", "kg", "are unloaded", "are loaded"),
           ("A pool holds {n} liters of water.", "liters", "are pumped out", "are pumped in")]


def start_crowd(d, unit_and_place):
    who, where = unit_and_place
    rng = d.rng
    if rng.percent(30):
        d.mark("groups")
        n, each = rng.between(2, 12), rng.between(2, 25)
        d.say(f"There are {n} groups of {each} {who} {where}.",
              f"{capital(where)} there are {n} groups with {each} {who} each.")
        return d.step(f"{capital(who)} at first", times(n, each))
    n = rng.between(5, 200)
    d.say(f"There are {n} {who} {where}.", f"There were {n} {who} {where}.", f"{n} {who} are {where}.",
          f"{capital(where)} there are {n} {who}.")
    return n


def crowd(rng):
    d = Draft(rng)
    who, where, leave, come = rng.choice(CROWDS)
    value = start_crowd(d, (who, where))
    for _ in range(rng.between(1, 3)):
        if rng.percent(55) and value > 3:
            k = rng.between(2, value - 1)
            d.mark("out")
            d.say(f"{k} of them {leave}.", f"Then {k} {who} {leave}.", f"{k} {who} {leave}.",
                  f"After a while, {k} {leave}.")
            value = d.step(f"{k} {leave}", minus(value, k))
        else:
            k = rng.between(2, 90)
            d.mark("in")
            d.say(f"{k} more {come}.", f"Then {k} more {who} {come}.", f"{k} more {who} {come}.",
                  f"Later {k} more {come}.")
            value = d.step(f"{k} {come}", plus(value, k))
    there = where.replace(" a ", " the ")
    d.say(f"How many {who} are there now?", f"How many {who} are {there} now?",
          f"How many {who} are {there} in the end?",
          f"How many {who} are still there?" if d.marks[-1] == "out" else f"How many {who} is that in total?")
    d.answer = value
    return d


def amount(rng):
    """Something measured gets less or more, at once or by the hour, and may be divided at the end."""
    d = Draft(rng)
    start, unit, less, more = rng.choice(AMOUNTS)
    value = rng.between(20, 900)
    d.say(start.format(n=value))
    d.mark(unit)
    for _ in range(rng.between(1, 2)):
        rate, hours, per = rng.between(2, 20), rng.between(2, 10), rng.choice(["hour", "day", "minute", "week"])
        if rng.percent(40) and rate * hours < value:
            d.mark("rate")
            d.say(f"Every {per} {rate} {unit} {less}. This goes on for {hours} {per}s.",
                  f"{rate} {unit} {less} each {per} for {hours} {per}s.")
            gone = d.step(f"In {hours} {per}s", times(rate, hours))
            value = d.step("Left", minus(value, gone))
        elif rng.percent(50) and value > 3:
            k = rng.between(2, value - 1)
            d.mark("less")
            d.say(f"{k} {unit} {less}.", f"Then {k} {unit} {less}.")
            value = d.step("Left", minus(value, k))
        else:
            k = rng.between(2, 300)
            d.mark("more")
            d.say(f"{k} {unit} {more}.", f"Then {k} {unit} {more}.", f"{k} more {unit} {more}.")
            value = d.step("Now", plus(value, k))
    parts = divisors(value) if len(d.steps) < 4 else []
    if parts and rng.percent(30):
        k = rng.choice(parts)
        d.mark("parts")
        d.say(f"What is left is divided into {k} equal parts. How many {unit} is each part?",
              f"The rest is split into {k} equal parts. How big is each part in {unit}?")
        value = d.step("Each part", over(value, k))
    else:
        d.say(f"How many {unit} are there now?", f"How many {unit} is that in the end?",
              f"How many {unit} are left?" if d.marks[-1] != "more" else f"How many {unit} is that?")
    d.answer = value
    return d


FAMILIES = {crowd: 6, amount: 6}
