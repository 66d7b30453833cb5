#!/usr/bin/env python3
"""The generator repeats itself from its seed, its arithmetic is right, and nothing held out is trained on."""
import ast
import collections
import fractions
import functools
import json
import math
import pathlib
import re
import struct
import unittest

import corpus
import evaluate
import packing
import tokenizer
from rng import Rng

MODEL = pathlib.Path(__file__).resolve().parent.parent / "arithmetic-7m"
SAMPLE = 6000


def conversation(index, seed=5):
    return corpus.training_conversation(Rng(corpus.conversation_seed(seed, index)))


@functools.cache
def sample_problems():
    return [corpus.training_problem(Rng(corpus.conversation_seed(11, index))) for index in range(SAMPLE)]


def value_of(expression):
    """Evaluates '12 x 10 + 4' exactly, by Python's parser and not by the generator's arithmetic."""
    def walk(node):
        if isinstance(node, ast.Constant):
            return fractions.Fraction(node.value)
        left, right = walk(node.left), walk(node.right)
        operations = {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}
        return left / right if isinstance(node.op, ast.Div) else operations[type(node.op)]

    return walk(ast.parse(expression.replace("x", "*").strip(), mode="eval").body)


def wrong_equations(text):
    """The chains 'a = b = c' in a text whose parts differ."""
    chains = re.findall(r"(?<=: )[\d +x/-]+(?:=[\d +x/-]+)+", text)
    return [chain for chain in chains if len({value_of(part) for part in chain.split("=")}) != 1]


class Corpus(unittest.TestCase):
    def test_same_seed_gives_the_same_conversations(self):
        self.assertEqual([conversation(i) for i in range(300)], [conversation(i) for i in range(300)])
        self.assertNotEqual([conversation(i) for i in range(300)], [conversation(i, seed=6) for i in range(300)])

    def test_every_step_is_an_equation_that_holds(self):
        for problem in sample_problems():
            for step in problem.steps:
                self.assertRegex(step, r": [\d +x/-]+=[\d =+x/-]+\.$")
                self.assertEqual(wrong_equations(step), [], step)

    def test_a_wrong_equation_is_noticed(self):
        self.assertEqual(wrong_equations("Left: 12 - 7 = 6."), ["12 - 7 = 6"])
        self.assertEqual(wrong_equations("Left: 4 x 12 = 4 x 10 + 4 x 3 = 48."), ["4 x 12 = 4 x 10 + 4 x 3 = 48"])

    def test_the_answer_is_a_result_of_the_steps(self):
        for problem in sample_problems():
            results = [step.rstrip(".").split("= ")[-1] for step in problem.steps]
            if problem.family.startswith("cents"):
                results = [f"{int(result) // 100}.{int(result) % 100:02d}" for result in results]
            if problem.family.startswith("remainder:full"):  # the first step begins with it
                results.append(problem.steps[0].split()[0])
            self.assertIn(problem.answer.lstrip("$"), results, problem)

    def test_no_step_count_is_rare(self):
        counts = collections.Counter(len(problem.steps) for problem in sample_problems())
        self.assertEqual(set(counts), {1, 2, 3, 4})
        self.assertGreater(min(counts.values()), SAMPLE // 20)

    def test_every_family_is_drawn(self):
        drawn = {problem.family.split(":")[0] for problem in sample_problems()}
        self.assertEqual(drawn, {family.__name__ for family in corpus.FAMILIES})


class Split(unittest.TestCase):
    def setUp(self):
        with open(MODEL / "heldout.jsonl", encoding="utf-8") as lines:
            self.heldout = [json.loads(line) for line in lines]

    def test_the_held_out_set_is_large_and_balanced(self):
        counts = collections.Counter(problem["steps"] for problem in self.heldout)
        self.assertGreaterEqual(len(self.heldout), 600)
        self.assertEqual(counts, {steps: len(self.heldout) // 4 for steps in (1, 2, 3, 4)})
        self.assertEqual(len({problem["question"] for problem in self.heldout}), len(self.heldout))

    def test_the_hashes_keep_every_held_out_problem_out_of_training(self):
        for problem in self.heldout:
            self.assertTrue(corpus.numbers_held_out(problem["family"], problem["numbers"]), problem)
            self.assertTrue(corpus.pair_held_out(problem["pair"]), problem)
        for problem in sample_problems():
            self.assertFalse(corpus.numbers_held_out(problem.family, problem.numbers), problem)
            self.assertFalse(corpus.pair_held_out(problem.pair), problem)

    def test_the_committed_set_comes_from_the_generator(self):
        fresh = [json.loads(corpus.heldout_line(problem)) for problem in corpus.heldout_problems(limit=20)]
        self.assertEqual(fresh, self.heldout[:20])

    def test_held_out_solutions_are_right(self):
        for problem in self.heldout:
            self.assertEqual(wrong_equations(problem["solution"]), [])
            self.assertTrue(evaluate.is_correct(problem, problem["solution"]))


class Scorer(unittest.TestCase):
    def test_only_the_last_answer_line_counts(self):
        self.assertTrue(evaluate.is_correct({"answer": "$3.50"}, "Cost: 1 + 2 = 3.\nAnswer: $3.50"))
        self.assertTrue(evaluate.is_correct({"answer": "1200"}, "Answer: 7\nAnswer: 1,200\n"))
        for text in ("", "42", "Answer: 43", "Answer: 42\nAnswer: 41", "The Answer: 42", "Answer: 42 or 43"):
            self.assertFalse(evaluate.is_correct({"answer": "42"}, text), text)

    def test_accuracy_is_by_steps(self):
        problems = [{"answer": "1", "steps": 2}, {"answer": "2", "steps": 3}]
        result = evaluate.score(problems, ["Answer: 1", "Answer: 1"])
        self.assertEqual([result[row]["correct"] for row in ("2", "3", "2 and 3", "all")], [1, 0, 1, 1])
        self.assertRaises(ValueError, evaluate.score, problems, ["Answer: 1"])


class Tokens(unittest.TestCase):
    def setUp(self):
        self.encoder = tokenizer.Encoder(MODEL / "tokenizer.json")

    def decode(self, ids):
        texts = {i: text for text, i in (self.encoder.vocab | self.encoder.special).items()}
        bytes_of = {symbol: byte for byte, symbol in tokenizer.BYTE_SYMBOLS.items()}
        return bytes(bytes_of[symbol] for i in ids for symbol in texts[i]).decode()

    def test_text_survives_and_digits_stand_alone(self):
        for _, text in conversation(0) + conversation(1) + [("user", "tabs\tand  spaces \n\n 1234 it's 50%")]:
            self.assertEqual(self.decode(self.encoder.encode(text)), text)
        self.assertEqual(len(self.encoder.encode("123456")), 6)

    def test_a_batch_is_a_function_of_seed_and_number(self):
        first = packing.pack_batch(self.encoder, 2, 7, rows=4, length=512)
        self.assertEqual(first,
                         packing.pack_batch(tokenizer.Encoder(MODEL / "tokenizer.json"), 2, 7, rows=4, length=512))
        self.assertNotEqual(first, packing.pack_batch(self.encoder, 2, 8, rows=4, length=512))

    def test_targets_are_the_next_token_of_the_same_conversation(self):
        for tokens, targets, weights, documents in zip(*packing.pack_batch(self.encoder, 2, 0, rows=4, length=512)):
            for i, weight in enumerate(weights):
                if weight:
                    self.assertEqual((targets[i], documents[i]), (tokens[i + 1], documents[i + 1]))
            self.assertEqual(tokens[0], self.encoder.special[tokenizer.BOS])


class ModelFiles(unittest.TestCase):
    """The committed checkpoint is what its config says."""

    def setUp(self):
        self.config = json.loads((MODEL / "config.json").read_text())
        data = (MODEL / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        self.header, self.bytes_left = json.loads(data[8:8 + size]), len(data) - 8 - size
        self.header.pop("__metadata__")

    def test_the_weights_are_bf16_and_fill_the_file(self):
        self.assertEqual({tensor["dtype"] for tensor in self.header.values()}, {"BF16"})
        self.assertEqual(sum(2 * math.prod(tensor["shape"]) for tensor in self.header.values()), self.bytes_left)
        self.assertLessEqual(self.bytes_left, 16_000_000)

    def test_the_shapes_follow_from_the_config(self):
        hidden, layers = self.config["hidden_size"], self.config["num_hidden_layers"]
        key_value = self.config["num_key_value_heads"] * self.config["head_dim"]
        self.assertEqual(len(self.header), 9 * layers + 2)  # tied: no head of its own
        self.assertEqual(self.header["model.embed_tokens.weight"]["shape"], [self.config["vocab_size"], hidden])
        last = f"model.layers.{layers - 1}.self_attn.k_proj.weight"
        self.assertEqual(self.header[last]["shape"], [key_value, hidden])

    def test_the_special_tokens_agree(self):
        encoder = tokenizer.Encoder(MODEL / "tokenizer.json")
        self.assertEqual(encoder.vocab_size, self.config["vocab_size"])
        self.assertEqual(encoder.special[tokenizer.BOS], self.config["bos_token_id"])
        self.assertEqual(encoder.special[tokenizer.EOT], self.config["eos_token_id"])
        self.assertEqual((MODEL / "chat_template.jinja").read_text(), tokenizer.CHAT_TEMPLATE)


if __name__ == "__main__":
    unittest.main()
