#!/usr/bin/env python3
"""The linear layer and the attention of int16-1, and the attention of exact-2, in integers and fractions, from the text
of NUMERICS.md alone, against the bits of the reference loops.  int16_spec_test.py WRITE_INT16_CASES

Every operation of binary32 is an exact fraction, rounded once. Controls: another block, another digit, another bound."""

import json
import math
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
    coefficients = ("0x1.3a04ap-7", "0x1.c9fc8p-5", "0x1.ec0372p-3", "0x1.62e12cp-1")
    unit = "0x1.020408p-7"
    least = -16

    @staticmethod
    def byte(largest):
        return byte(largest)

    @classmethod
    def value(cls, pairs):
        """Of a sum of products, in binary32."""
        return r32(Fraction(sum(term(cls, x, w) for x, w in pairs)))

    @staticmethod
    def weights_unit(largest, logs, units):
        return largest


class Exact2(Rules):
    weight = 8323072
    coefficients = ("0x1.5bda5cp-10", "0x1.3ce8aep-7", "0x1.c6b6d8p-5", "0x1.ebf9c2p-3", "0x1.62e42ap-1")
    unit = "0x1.020408p-15"
    least = -25
    products = 8
    fitted = True

    @staticmethod
    def byte(largest):
        return max(1, (word(largest) + 0x10101) // 2**23 - 22)

    @classmethod
    def value(cls, pairs):
        a = b = 0
        for x, w in pairs:
            (x0, x1, x2), (w0, w1, w2) = digits(x), digits(w)
            a += 256 * x0 * w0 + x0 * w1 + x1 * w0
            b += 256 * (x0 * w2 + x1 * w1 + x2 * w0)
            b += x1 * w2 + x2 * w1 if cls.products == 8 else 0
        return r32(r32(Fraction(a)) * 65536 + r32(Fraction(b)))

    @classmethod
    def weights_unit(cls, largest, logs, units):
        y = max(r32(max(x, Fraction(-126)) + (unit - largest)) for x, unit in zip(logs, units))
        return max(largest + math.ceil(y), largest - 64, 1) if cls.fitted else largest


def byte(largest):
    return max(1, (word(largest) + 0x10100) // 2**23 - 14)


def digits(x):
    upper = high(x)
    return high(upper), upper - 256 * high(upper), x - 256 * upper


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


def exp2(rules, x):
    x = max(x, Fraction(-126))
    shift = hexadecimal("0x1.8p+23") + 127
    n = r32(r32(x + shift) - shift)
    r = x - n
    p = hexadecimal(rules.coefficients[0])
    for coefficient in rules.coefficients[1:]:
        p = r32(p * r + hexadecimal(coefficient))
    p = r32(p * r + 1)
    return p * Fraction(2) ** int(n)


def attention(rules, q, keys, values, scale, window):
    end = len(keys)
    begin = max(0, end - window) if window else 0
    b = rules.byte(max(map(abs, q)))
    query = integers(q, b)
    a = r32(r32(scale * hexadecimal("0x1.715476p+8")) * Fraction(2) ** (b - 127))
    k = [rules.byte(max(map(abs, key))) for key in keys]
    v = [rules.byte(max(map(abs, val))) for val in values]
    m_all = l_all = o_all = None
    for i in range(begin // rules.keys, (end - 1) // rules.keys + 1):
        seen = range(max(begin, i * rules.keys), min(end, (i + 1) * rules.keys))
        score = {}
        for j in seen:
            dot = rules.value(zip(query, integers(keys[j], k[j])))
            score[j] = r32(r32(dot * Fraction(2) ** (k[j] - 127)) * a)
        m = max(score.values())
        f = rules.weights_unit(max(v[j] for j in seen), [r32(score[j] - m) for j in seen], [v[j] for j in seen])
        total, weights = 0, []
        for j in seen:
            p = exp2(rules, r32(score[j] - m))
            total += rint(p * 2**23)
            weights.append(rint(p * (rules.weight * Fraction(2) ** max(v[j] - f, rules.least))))
        l = r32(r32(Fraction(total)) / 2**23)
        elements = [integers(values[j], v[j]) for j in seen]
        o = [rules.value(zip(weights, [of[d] for of in elements])) for d in range(len(q))]
        u = r32(Fraction(2) ** (f - 127) * hexadecimal(rules.unit))
        if m_all is None:
            m_all, l_all, o_all = m, l, [r32(x * u) for x in o]
            continue
        n = max(m_all, m)
        e, c = exp2(rules, r32(m_all - n)), exp2(rules, r32(m - n))
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


def altered(rules, **changes):
    return type("Altered", (rules,), changes)


def main(tool):
    cases = [json.loads(line) for line in subprocess.run([tool], check=True, capture_output=True, text=True).stdout.splitlines()]
    for number, case in enumerate(cases):
        if not agrees(Exact2 if case.get("contract") == "exact-2" else Rules, case):
            sys.exit(f"case {number}, {case['op']}: the reference has other bits")
    linears = [case for case in cases if case["op"] == "linear"]
    attentions = [case for case in cases if case.get("contract") == "int16-1"]
    three_digits = [case for case in cases if case.get("contract") == "exact-2"]
    for rules, changes, of in (
        (Rules, {"block": 256}, linears),
        (Rules, {"apart": 4}, linears),
        (Rules, {"low_by_low": True}, linears),
        (Rules, {"low_by_low": True}, attentions),
        (Rules, {"keys": 64}, attentions),
        (Rules, {"weight": 16384}, attentions),
        (Exact2, {"products": 6}, three_digits),
        (Exact2, {"keys": 64}, three_digits),
        (Exact2, {"weight": 4194304}, three_digits),
        (Exact2, {"fitted": False}, three_digits),
    ):
        if all(agrees(altered(rules, **changes), case) for case in of[-4:]):
            sys.exit(f"{changes}: a control that should differ does not")
    print(f"{len(linears)} linear layers and {len(attentions)} + {len(three_digits)} attentions have the bits of the text")


if __name__ == "__main__":
    main(sys.argv[1])
