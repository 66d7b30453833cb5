#!/usr/bin/env python3
"""The linear layer and the attention of int16-1 in integers and fractions, from the text of NUMERICS.md alone, against
the bits of the reference loops.  int16_spec_test.py WRITE_INT16_CASES

Every operation of binary32 is an exact fraction, rounded once. Controls: another block, another digit, another bound."""

import json
import struct
import subprocess
import sys
from fractions import Fraction


def value(word):
    return Fraction(struct.unpack("<f", struct.pack("<I", word))[0])


def rint(x):
    """To the nearest integer, ties to even: as Python rounds."""
    return round(x)


def r32(x):
    """The nearest binary32 number, ties to even. Without infinities, which no case reaches."""
    if x == 0:
        return Fraction(0)
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > abs(x):
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    return rint(x / unit) * unit


def word(x):
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


def hexadecimal(text):
    return Fraction(float.fromhex(text))


class Rules:
    block, apart, keys, weight = 512, 24, 128, 32512
    low_by_low = False


def byte(largest):
    return max(1, (word(largest) + 0x10100) // 2**23 - 14)


def integers(numbers, of):
    return [rint(x / Fraction(2) ** (of - 127)) for x in numbers]


def high(x):
    return (x + 128) // 256


def term(rules, x, w):
    low_x, low_w = x - 256 * high(x), w - 256 * high(w)
    # With the product that is left out, a term is no integer: its fraction counts too.
    extra = Fraction(low_x * low_w, 256) if rules.low_by_low else 0
    return high(x) * w + low_x * high(w) + extra


def linear(rules, x, w, bias):
    blocks = [x[i : i + rules.block] for i in range(0, len(x), rules.block)]
    b = [byte(max(map(abs, block))) for block in blocks]
    largest = max(b)
    b = [max(of, largest - rules.apart) for of in b]
    c = byte(max(map(abs, w)))
    weights = integers(w, c)
    total = 0
    for s, block in enumerate(blocks):
        part = weights[s * rules.block : (s + 1) * rules.block]
        sum_of_block = sum(term(rules, a, v) for a, v in zip(integers(block, b[s]), part))
        total += sum_of_block * Fraction(2) ** (b[s] - largest + 24)
    e = largest + c - 270
    d = min(max(e, -126), 127)
    y = r32(r32(r32(Fraction(total)) * Fraction(2) ** d) * Fraction(2) ** (e - d))
    return r32(y + bias)


def exp2(x):
    x = max(x, Fraction(-126))
    shift = hexadecimal("0x1.8p+23") + 127
    n = r32(r32(x + shift) - shift)
    r = x - n
    p = r32(hexadecimal("0x1.3a04ap-7") * r + hexadecimal("0x1.c9fc8p-5"))
    p = r32(p * r + hexadecimal("0x1.ec0372p-3"))
    p = r32(p * r + hexadecimal("0x1.62e12cp-1"))
    p = r32(p * r + 1)
    return p * Fraction(2) ** int(n)


def attention(rules, q, keys, values, scale, window):
    end = len(keys)
    begin = max(0, end - window) if window else 0
    b = byte(max(map(abs, q)))
    query = integers(q, b)
    a = r32(r32(scale * hexadecimal("0x1.715476p+8")) * Fraction(2) ** (b - 127))
    k = [byte(max(map(abs, key))) for key in keys]
    v = [byte(max(map(abs, val))) for val in values]
    m_all = l_all = o_all = None
    for i in range(begin // rules.keys, (end - 1) // rules.keys + 1):
        seen = range(max(begin, i * rules.keys), min(end, (i + 1) * rules.keys))
        score = {}
        for j in seen:
            dot = sum(term(rules, x, w) for x, w in zip(query, integers(keys[j], k[j])))
            score[j] = r32(r32(r32(Fraction(dot)) * Fraction(2) ** (k[j] - 127)) * a)
        m = max(score.values())
        f = max(v[j] for j in seen)
        total, sums = 0, [0] * len(q)
        for j in seen:
            p = exp2(r32(score[j] - m))
            total += rint(p * 2**23)
            weight = rint(p * (rules.weight * Fraction(2) ** max(v[j] - f, -16)))
            for d, element in enumerate(integers(values[j], v[j])):
                sums[d] += term(rules, weight, element)
        l = r32(r32(Fraction(total)) / 2**23)
        o = [r32(Fraction(x)) for x in sums]
        u = r32(Fraction(2) ** (f - 127) * hexadecimal("0x1.020408p-7"))
        if m_all is None:
            m_all, l_all, o_all = m, l, [r32(x * u) for x in o]
            continue
        n = max(m_all, m)
        e, c = exp2(r32(m_all - n)), exp2(r32(m - n))
        h = r32(u * c)
        l_all = r32(l_all * e + r32(l * c))
        o_all = [r32(x * e + r32(y * h)) for x, y in zip(o_all, o)]
        m_all = n
    return [r32(x / l_all) for x in o_all]


def rows(numbers, width):
    return [numbers[i : i + width] for i in range(0, len(numbers), width)]


def results(rules, case):
    if case["op"] == "linear":
        x, w = (rows([value(word_) for word_ in case[name]], case["k"]) for name in ("x", "w"))
        bias = [value(word_) for word_ in case["bias"]]
        return [linear(rules, row, w[n], bias[n]) for row in x for n in range(len(w))]
    dim = case["head_dim"]
    q, k, v = (rows([value(word_) for word_ in case[name]], dim) for name in ("q", "k", "v"))
    return [y for head in q for y in attention(rules, head, k, v, value(case["scale"]), case["window"])]


def agrees(rules, case):
    expected = [value(word_) for word_ in case["y" if case["op"] == "linear" else "out"]]
    return results(rules, case) == expected


def altered(**changes):
    return type("Altered", (Rules,), changes)


def main(tool):
    cases = [json.loads(line) for line in subprocess.run([tool], check=True, capture_output=True, text=True).stdout.splitlines()]
    for number, case in enumerate(cases):
        if not agrees(Rules, case):
            sys.exit(f"case {number}, {case['op']}: the reference has other bits")
    linears = [case for case in cases if case["op"] == "linear"]
    attentions = [case for case in cases if case["op"] == "attention"]
    for changes, of in (
        ({"block": 256}, linears),
        ({"apart": 4}, linears),
        ({"low_by_low": True}, linears),
        ({"low_by_low": True}, attentions),
        ({"keys": 64}, attentions),
        ({"weight": 16384}, attentions),
    ):
        if all(agrees(altered(**changes), case) for case in of[-4:]):
            sys.exit(f"{changes}: a control that should differ does not")
    print(f"{len(linears)} linear layers and {len(attentions)} attentions have the bits of the text")


if __name__ == "__main__":
    main(sys.argv[1])
