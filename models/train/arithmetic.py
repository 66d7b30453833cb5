"""Arithmetic written out the way a pupil would, in chains such as '12 x 15 = 10 x 15 + 2 x 15 = ...'.

Every function returns (chain, value): each part of the chain between '=' signs has the same value. Products of more
than one digit and long quotients are taken apart, so that no single '=' asks for more than one small computation.
"""


def plus(*terms):
    """Adds from the left, two at a time."""
    terms = list(terms)
    chain = [" + ".join(map(str, terms))]
    while len(terms) > 1:
        terms[:2] = [terms[0] + terms[1]]
        chain.append(" + ".join(map(str, terms)))
    return " = ".join(chain), terms[0]


def minus(a, b):
    return f"{a} - {b} = {a - b}", a - b


def digits_parts(n):
    """307 -> [300, 7]."""
    text = str(n)
    return [int(d) * 10 ** (len(text) - 1 - i) for i, d in enumerate(text) if d != "0"]


def times(a, b):
    left, right = digits_parts(a), digits_parts(b)
    if len(left) * len(right) <= 1:
        return f"{a} x {b} = {a * b}", a * b
    products = [(x, y) for x in left for y in right]
    chain = [f"{a} x {b}", " + ".join(f"{x} x {y}" for x, y in products)]
    sums = [x * y for x, y in products]
    chain.append(" + ".join(map(str, sums)))
    while len(sums) > 1:
        sums = [sum(sums[i:i + 2]) for i in range(0, len(sums), 2)]
        chain.append(" + ".join(map(str, sums)))
    return " = ".join(chain), a * b


def over(a, b):
    """Exact division: b divides a."""
    if a % b:
        raise ValueError(f"{a} / {b} leaves a remainder")
    quotient = a // b
    parts = digits_parts(quotient)
    if len(parts) <= 1 or quotient <= 12 and b <= 12:
        return f"{a} / {b} = {quotient}", quotient
    chain = [f"{a} / {b}", " + ".join(f"{part * b} / {b}" for part in parts), " + ".join(map(str, parts))]
    if len(parts) > 2:
        chain.append(f"{sum(parts[:2])} + {parts[2]}")
    return " = ".join(chain + [str(quotient)]), quotient


def dollars(cents):
    return f"${cents // 100}.{cents % 100:02d}"
