"""Problems about prices, change, savings and wages."""
import words
from arithmetic import dollars, minus, over, plus, times
from draft import Draft, capital, easy_divisor


def goods_draft(rng):
    draft = Draft(rng)
    draft.thing = words.draw_thing(rng, words.GOODS)
    return draft


def other_good(rng, draft):
    while True:
        thing = words.draw_thing(rng, words.GOODS)
        if thing != draft.thing:
            return thing


def price(rng):
    """n things at one price; perhaps the change from a note, perhaps shared among friends."""
    d = goods_draft(rng)
    name, he, one, many = d.who.name, d.who.he, d.thing.one, d.thing.many
    n, p = rng.between(2, 30), rng.between(2, 40)
    d.say(f"A {one} costs ${p}. {name} buys {n} {many}.", f"{name} buys {n} {many} for ${p} each.",
          f"{name} bought {n} {many} at ${p} each.", f"One {one} costs ${p}. {name} wants to buy {n} of them.",
          f"{name} buys {n} {many}. Each {one} costs ${p}.",
          f"A shop sells {many} for ${p} each. {name} buys {n} of them.")
    total = d.step(f"Cost of the {many}", times(n, p))
    kind = rng.choice(["total", "change", "discount", "change", "tip"])
    d.mark(kind)
    if kind == "total":
        d.say(f"How much does {he} pay?", "How much do they cost in total?", f"How much does {name} spend?",
              f"How many dollars does {he} pay altogether?", "What is the total cost?", "How much money does it cost?")
    elif kind == "change":
        paid = next(note for note in (20, 50, 100, 200, 500, 1000, 2000) if note > total)
        d.say(f"{capital(he)} pays with ${paid}. How much change does {he} get?",
              f"How much change does {he} get from ${paid}?",
              f"If {name} pays with ${paid}, how much change does {he} get back?",
              f"{name} had ${paid}. How much money does {he} have left?",
              f"{capital(he)} gives the cashier ${paid}. How much change should {he} receive?")
        total = d.step("Change", minus(paid, total))
    elif kind == "discount":
        off = rng.between(2, total - 1) if total < 20 else rng.between(2, 15)
        d.say(f"{capital(he)} has a coupon for ${off} off. How much does {he} pay?",
              f"The shop takes ${off} off the total. How much does {name} pay?",
              f"With a discount of ${off} on the whole, how much does {he} pay?")
        total = d.step(f"Less ${off}", minus(total, off))
    else:
        extra = rng.between(2, 25)
        d.say(f"Delivery costs ${extra} more. How much does {he} pay in total?",
              f"{capital(he)} also pays ${extra} for a bag. How much does {he} spend altogether?",
              f"The shipping is ${extra}. What is the total cost?")
        total = d.step("In total", plus(total, extra))
    d.answer = f"${total}"
    return d


def two_goods(rng):
    """Two kinds of goods: three steps, or four with change or sharing."""
    d = goods_draft(rng)
    other = other_good(rng, d)
    name, he = d.who.name, d.who.he
    n, p, m, q = rng.between(2, 12), rng.between(2, 25), rng.between(2, 12), rng.between(2, 25)
    d.say(f"{name} buys {n} {d.thing.many} for ${p} each and {m} {other.many} for ${q} each.",
          f"{name} buys {n} {d.thing.many} at ${p} each and {m} {other.many} at ${q} each.",
          f"A {d.thing.one} costs ${p} and a {other.one} costs ${q}. {name} buys {n} {d.thing.many} and {m}"
          f" {other.many}.",
          f"{name} bought {n} {d.thing.many} and {m} {other.many}. Each {d.thing.one} cost ${p} and each {other.one}"
          f" cost ${q}.")
    first = d.step(capital(d.thing.many), times(n, p))
    second = d.step(capital(other.many), times(m, q))
    kind = rng.choice(["total", "total", "change", "difference"])
    d.mark(kind)
    if kind == "difference":
        if first <= second:
            d.say(f"How much more do the {other.many} cost than the {d.thing.many}?")
            d.answer = f"${d.step('Difference', minus(second, first))}"
        else:
            d.say(f"How much more do the {d.thing.many} cost than the {other.many}?")
            d.answer = f"${d.step('Difference', minus(first, second))}"
        return d
    total = d.step("Together", plus(first, second))
    if kind == "change":
        paid = next(note for note in (50, 100, 200, 500, 1000) if note > total)
        d.say(f"{capital(he)} pays with ${paid}. How much change does {he} get?",
              f"How much is left of {d.who.his} ${paid}?",
              f"How much change does {he} get from ${paid}?")
        total = d.step("Change", minus(paid, total))
    else:
        d.say(f"How much does {he} spend in total?", f"How much does {name} pay altogether?", "What is the total cost?",
              f"How much money does {he} spend?")
    d.answer = f"${total}"
    return d


def tickets(rng):
    d = Draft(rng)
    a, p, c, q = rng.between(2, 30), rng.between(5, 25), rng.between(2, 40), rng.between(2, 12)
    where = rng.choice(["a museum", "a zoo", "a cinema", "a circus", "a theater", "a fair", "a swimming pool",
                        "a concert"])
    d.say(f"A ticket to {where} costs ${p} for adults and ${q} for children. A group of {a} adults and {c} children"
          f" goes there.",
          f"At {where}, adult tickets cost ${p} and child tickets cost ${q}. {a} adults and {c} children visit.",
          f"{a} adults and {c} children visit {where}. Adults pay ${p} each and children pay ${q} each.")
    adults = d.step("Adults", times(a, p))
    children = d.step("Children", times(c, q))
    d.say("How much do they pay in total?", "How much do the tickets cost altogether?", "What is the total price?")
    d.answer = f"${d.step('Together', plus(adults, children))}"
    return d


def saving(rng):
    """How much after some weeks, or how many weeks until something can be bought."""
    d = goods_draft(rng)
    name, he, weekly, weeks, start = d.who.name, d.who.he, rng.between(2, 40), rng.between(2, 24), rng.between(5, 200)
    period = rng.choice(["week", "month", "day"])
    if rng.percent(50):
        d.mark("total")
        d.say(f"{name} saves ${weekly} every {period}.", f"{name} puts ${weekly} aside each {period}.")
        saved = d.step("Saved", times(weekly, weeks))
        kind = rng.choice(["plain", "start", "spend"])
        d.mark(kind)
        if kind == "start":
            d.say(f"{capital(he)} already has ${start}.", f"{capital(he)} started with ${start}.")
            saved = d.step("With the start", plus(saved, start))
        elif kind == "spend" and start < saved:
            d.say(f"Over {weeks} {period}s {he} also spends ${start} on presents.")
            saved = d.step("After spending", minus(saved, start))
        d.say(f"How much money does {he} have after {weeks} {period}s?",
              f"How much does {name} have after {weeks} {period}s?")
        d.answer = f"${saved}"
        return d
    d.mark("time")
    weekly = easy_divisor(rng)
    cost = start + weekly * weeks
    d.say(f"{name} wants to buy a {d.thing.one} that costs ${cost}. {capital(he)} has ${start} and saves ${weekly} a"
          f" {period}.",
          f"A {d.thing.one} costs ${cost}. {name} already has ${start} and saves ${weekly} every {period}.")
    missing = d.step("Missing", minus(cost, start))
    d.say(f"After how many {period}s can {he} buy it?", f"How many {period}s does {he} need to save?",
          f"How many {period}s will it take?")
    d.answer = d.step(f"{capital(period)}s", over(missing, weekly))
    return d


def wage(rng):
    d = Draft(rng)
    name, he, w, h, days = d.who.name, d.who.he, rng.between(5, 30), rng.between(2, 9), rng.between(2, 20)
    d.say(f"{name} earns ${w} an hour and works {h} hours a day.",
          f"{name} works {h} hours a day and is paid ${w} per hour.",
          f"{name} gets ${w} for each hour of work and works {h} hours every day.")
    value = d.step("Per day", times(w, h))
    kind = rng.choice(["day", "days", "days", "spend"])
    d.mark(kind)
    if kind == "day":
        d.say(f"How much does {he} earn in a day?", f"How much money does {name} make each day?")
    else:
        value = d.step(f"In {days} days", times(value, days))
        if kind == "spend":
            cost = rng.between(2, value - 1)
            d.say(f"After {days} days {he} spends ${cost}. How much money does {he} have left?",
                  f"{capital(he)} works {days} days and then pays ${cost} for rent. How much is left?")
            value = d.step("Left", minus(value, cost))
        else:
            d.say(f"How much does {he} earn in {days} days?", f"How much money does {name} make in {days} days?")
    d.answer = f"${value}"
    return d


def split_bill(rng):
    d = goods_draft(rng)
    other = other_good(rng, d)
    people = rng.between(2, 9)
    each = rng.between(3, 40)
    total = people * each
    first = rng.between(1, total - 1)
    d.say(f"{people} friends buy a {d.thing.one} for ${first} and a {other.one} for ${total - first} and share the"
          f" cost equally.",
          f"A {d.thing.one} costs ${first} and a {other.one} costs ${total - first}. {people} friends buy both and"
          f" split the bill equally.",
          f"{d.who.name} and some friends, {people} people in all, pay ${first} for a {d.thing.one} and"
          f" ${total - first} for a"
          f" {other.one} and share equally.")
    total = d.step("Together", plus(first, total - first))
    d.say("How much does each of them pay?", "How much does each person pay?", "What is each one's share?")
    d.answer = f"${d.step('Each', over(total, people))}"
    return d


def cents(rng):
    """Prices with cents are worked out in cents."""
    d = goods_draft(rng)
    name, he, n, p = d.who.name, d.who.he, rng.between(2, 9), rng.between(10, 98) * 5
    d.say(f"{name} buys {n} {d.thing.many} for {dollars(p)} each.",
          f"A {d.thing.one} costs {dollars(p)}. {name} buys {n} of them.",
          f"{name} buys {n} {d.thing.many} at {dollars(p)} each.")
    total = d.step(f"{dollars(p)} is {p} cents. Cost in cents", times(n, p))
    if rng.percent(50):
        d.mark("change")
        paid = next(note for note in (5, 10, 20, 50, 100) if note * 100 > total)
        d.say(f"{capital(he)} pays with ${paid}. How much change does {he} get?",
              f"How much change does {he} get from ${paid}?")
        total = d.step(f"${paid} is {paid * 100} cents. Change in cents", minus(paid * 100, total))
    else:
        d.say(f"How much does {he} pay?", "How much do they cost?", f"How much does {name} spend?",
              "What is the total cost?")
    d.answer = dollars(total)
    return d


def unit_price(rng):
    """From the price of some to the price of others, or how many one can buy."""
    d = goods_draft(rng)
    n, p, m, many = rng.between(2, 12), rng.between(2, 40), rng.between(2, 20), d.thing.many
    if rng.percent(30):
        p = easy_divisor(rng)
        d.mark("count")
        d.say(f"{d.who.name} has ${p * m}. A {d.thing.one} costs ${p}.",
              f"A {d.thing.one} costs ${p}, and {d.who.name} has ${p * m} to spend.")
        d.say(f"How many {many} can {d.who.he} buy?", f"How many {many} can {d.who.name} buy with the money?")
        d.answer = d.step(capital(many), over(p * m, p))
        return d
    d.say(f"{n} {many} cost ${n * p}.", f"{d.who.name} pays ${n * p} for {n} {many}.",
          f"{d.who.name} bought {n} {many} for ${n * p} in total.")
    one = d.step(f"One {d.thing.one}", over(n * p, n))
    if rng.percent(30):
        d.mark("one")
        d.say(f"How much does one {d.thing.one} cost?", f"What is the price of a {d.thing.one}?")
        d.answer = f"${one}"
    else:
        d.say(f"How much do {m} {many} cost?", f"How much would {m} {many} cost at the same price?")
        d.answer = f"${d.step(f'{m} {many}', times(one, m))}"
    return d


def profit(rng):
    """Bought at one price, sold at a higher one."""
    d = goods_draft(rng)
    name, he, many = d.who.name, d.who.he, d.thing.many
    n, p = rng.between(2, 40), rng.between(2, 30)
    q = p + rng.between(1, 20)
    d.say(f"{name} buys {n} {many} for ${p} each and sells them for ${q} each.",
          f"{name} bought {n} {many} at ${p} each. {capital(he)} sold them all at ${q} each.",
          f"A shop buys {n} {many} for ${p} each and sells each for ${q}.")
    each = d.step("Profit on one", minus(q, p))
    d.say("How much profit is that?", "What is the profit?", "How much money is earned in total?",
          "How big is the total profit?")
    d.answer = f"${d.step('Profit', times(n, each))}"
    return d


FAMILIES = {price: 8, two_goods: 6, tickets: 3, saving: 5, wage: 4, split_bill: 3, cents: 4, unit_price: 5, profit: 3}
