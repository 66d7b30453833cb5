#!/usr/bin/env python3
"""The study's problems are right and held out, its tasks come from their generators, and batches of prose are whole."""
import array
import collections
import contextlib
import io
import json
import pathlib
import re
import struct
import tempfile
import types
import unittest

import algebra
import corpus
import evaluate_study
import packing
import prose
import study_corpus
import tasks
import tokenizer
import train_study_models
from corpus_test import value_of, wrong_equations
from recipes import RECIPES, parameters
from rng import Rng

MODELS = pathlib.Path(__file__).resolve().parent.parent
TASKS = MODELS / "study" / "tasks"


def draws(make, count, seed=3):
    return [make(Rng(corpus.conversation_seed(seed, index))) for index in range(count)]


def equations(question):
    """'7x + 12 = 96' -> [('x', '7*x + 12', '96')], without those that give a letter its value."""
    found = re.findall(r"((?:\d*[a-z]|\d+)(?: [+-] (?:\d*[a-z]|\d+))+) = ((?:\d*[a-z]|\d+)(?: [+-] (?:\d*[a-z]|\d+))*)",
                       question)
    return [tuple(re.sub(r"(\d)([a-z])", r"\1 * \2", side) for side in sides) for sides in found]


def solves(question, letter, value):
    """Whether the one equation of a question holds with this value."""
    (sides,) = equations(question)
    left, right = (value_of(re.sub(rf"\b{letter}\b", str(value), side)) for side in sides)
    return left == right


class Algebra(unittest.TestCase):
    def test_every_step_is_an_equation_that_holds(self):
        for problem in draws(study_corpus.algebra_problem, 2000):
            self.assertEqual(wrong_equations("\n".join(problem.steps)), [], problem)
            self.assertEqual(problem.steps[-1].rstrip(".").split("= ")[-1], problem.answer, problem)

    def test_the_answer_solves_the_equation(self):
        for family in (algebra.linear, algebra.both_sides):
            for d in draws(family, 300):
                question, letter = " ".join(d.sentences), d.steps[-1][0]
                self.assertTrue(solves(question, letter, d.answer), question)
                self.assertFalse(solves(question, letter, d.answer + 1), question)

    def test_every_family_is_drawn(self):
        drawn = {problem.family.split(":")[0] for problem in draws(study_corpus.algebra_problem, 300)}
        self.assertEqual(drawn, {family.__name__ for family in algebra.FAMILIES})


class StudyCorpus(unittest.TestCase):
    def test_conversations_are_a_function_of_the_seed(self):
        self.assertEqual(draws(study_corpus.training_conversation, 200), draws(study_corpus.training_conversation, 200))
        self.assertNotEqual(draws(study_corpus.training_conversation, 200),
                            draws(study_corpus.training_conversation, 200, seed=4))

    def test_the_letter_is_that_of_the_right_answer(self):
        letters = collections.Counter()
        for rng in map(Rng, range(600)):
            problem = study_corpus.any_problem(rng)
            asked = study_corpus.with_choices(rng, problem, "Which is right?")
            options = dict(re.findall(r"^([A-D])\. (\S+)$", asked.question, re.MULTILINE))
            self.assertEqual(options[asked.answer], problem.answer)
            self.assertEqual(len(set(options.values())), 4)
            letters[asked.answer] += 1
        self.assertGreater(min(letters[letter] for letter in "ABCD"), 100)

    def test_long_stories_are_long_and_right(self):
        for problem in draws(lambda rng: study_corpus.long_story(rng, 9, 14), 200):
            self.assertIn(len(problem.steps), range(9, 15))
            self.assertEqual(wrong_equations("\n".join(problem.steps)), [])
            self.assertEqual(problem.steps[-1].rstrip(".").split("= ")[-1], problem.answer)

    def test_made_up_problems_are_about_what_was_asked_for(self):
        for request, answer in draws(study_corpus.compose, 300):
            self.assertEqual(wrong_equations(answer), [])
            problems = answer.split("\n\n")
            self.assertEqual(len(problems), {"a": 1, "two": 2, "three": 3}[request.split(" problem")[0].split()[-1]])
            person_and_thing = re.search(r"about (\w+) and (\w+) and solve", request)
            for problem in problems if person_and_thing else []:
                self.assertIn(person_and_thing[2][:3], problem.lower())  # one or many of them
                self.assertNotRegex(problem, r"\b[Aa] [aeiou]|\b[Aa]n (?![aeiouh])")

    def test_training_and_tasks_share_no_problem(self):
        for problem in draws(lambda rng: study_corpus.kept(study_corpus.any_problem, rng), 500):
            self.assertFalse(corpus.numbers_held_out(problem.family, problem.numbers))
        for problem in draws(lambda rng: tasks.held_out(study_corpus.any_problem, rng), 100):
            self.assertTrue(corpus.numbers_held_out(problem.family, problem.numbers))
        self.assertGreater(tasks.LONG_STEPS[1], study_corpus.LONG_STEPS[1])

    def test_nearly_every_conversation_fits_into_a_row(self):
        encoder, length = tokenizer.Encoder(MODELS / "arithmetic-7m" / "tokenizer.json"), RECIPES["qwen3-4m"].length
        conversations = draws(study_corpus.training_conversation, 400)
        sizes = [len(packing.encode_conversation(encoder, messages)[0]) for messages in conversations]
        self.assertGreater(sum(size <= length for size in sizes), 390)
        self.assertGreater(max(sizes), 300)


class Tasks(unittest.TestCase):
    def test_the_committed_tasks_come_from_the_generators(self):
        for task in tasks.GENERATORS:
            self.assertEqual((TASKS / f"{task}.jsonl").read_text(), "".join(tasks.task_lines(task)), task)

    def test_the_tasks_are_complete_and_small(self):
        self.assertEqual({path.stem for path in TASKS.glob("*.jsonl")}, set(tasks.COUNTS))
        self.assertLess(sum(path.stat().st_size for path in TASKS.glob("*.jsonl")), 400_000)
        for task, count in tasks.COUNTS.items():
            problems = [json.loads(line) for line in (TASKS / f"{task}.jsonl").read_text().splitlines()]
            self.assertEqual(len({problem["id"] for problem in problems}), count)
            self.assertEqual(len({problem["prompt"] for problem in problems}), count)
            self.assertEqual({"answer" in problem for problem in problems}, {task not in ("compose", "prose")})

    def test_hard_equations_are_solved_by_their_answers(self):
        for question, answer in draws(tasks.hard_algebra, 200):
            letter = question.split(":")[0][-1]
            self.assertTrue(solves(question, letter, answer), question)
            self.assertFalse(solves(question, letter, int(answer) - 1), question)

    def test_large_sums_and_products_are_right(self):
        for question, answer in draws(tasks.large, 100):
            self.assertEqual(value_of(question[len("What is "):-1]), int(answer), question)

    def test_prompts_of_prose_are_first_words(self):
        paragraphs = [" ".join(f"w{number}x{i}" for i in range(60)) for number in range(tasks.COUNTS["prose"])]
        lines = [json.loads(line) for line in tasks.prose_lines([paragraphs])]
        for problem, paragraph in zip(lines, paragraphs, strict=True):
            self.assertTrue(paragraph.startswith(problem["prompt"] + " "))
        self.assertRaises(ValueError, tasks.prose_lines, [paragraphs[1:]])

    def test_answers_are_judged_as_the_study_does(self):
        for answer, text in (("B", "Sum: 1 + 2 = 3.\nAnswer: B"), ("1200", "Answer: 1,200"), ("$3.50", "Answer: $3.50")):
            self.assertTrue(evaluate_study.is_right(answer, text), text)
        for answer, text in (("B", "Answer: C"), ("B", ""), ("42", "Answer: 42 or 43"), ("42", "none")):
            self.assertFalse(evaluate_study.is_right(answer, text), text)


class Prose(unittest.TestCase):
    def setUp(self):
        self.encoder = tokenizer.Encoder(MODELS / "arithmetic-7m" / "tokenizer.json")
        self.bos, self.end = self.encoder.special[tokenizer.BOS], self.encoder.special[tokenizer.END]

    def test_texts_become_plain_paragraphs(self):
        self.assertEqual(prose.ascii_text("“Caf\u00e9”\n —  it’s"), '"Cafe" -- it\'s')
        self.assertEqual(prose.paragraphs(["a", "b", "", "", "c"]), ["a b", "c"])

    def test_strings_of_r_are_read(self):
        strings = b"".join(struct.pack(">Ii", 0x40009, len(text)) + text for text in (b"one", b"", b"three"))
        head = b"X\n" + bytes(12) + b"UTF-8"
        self.assertEqual(prose.strings_of_r(head + struct.pack(">II", 16, 3) + strings), ["one", "", "three"])
        self.assertRaises(ValueError, prose.strings_of_r, head + struct.pack(">II", 13, 3) + strings)

    def test_a_passage_is_encoded_from_begin_to_end(self):
        tokens = prose.encode_passages(self.encoder, [["One two.", "Three."], ["Four."]])
        plain = [token & ~prose.PARAGRAPH_BIT for token in tokens]
        first = [self.bos, *self.encoder.encode("One two.\nThree.\n"), self.end]
        self.assertEqual(plain[:len(first)], first)
        self.assertEqual(plain[len(first):], [self.bos, *self.encoder.encode("Four.\n"), self.end])
        starts = prose.paragraph_starts(tokens)
        self.assertEqual([plain[i:i + 1] for i in starts],
                         [self.encoder.encode(word)[:1] for word in ("One", "Three", "Four")])

    def test_rows_begin_at_paragraphs_and_passages_stay_apart(self):
        passages = [[f"Paragraph {n} of passage {p}." for n in range(3)] for p in range(4)]
        tokens = prose.encode_passages(self.encoder, passages)
        starts = prose.paragraph_starts(tokens)
        batch = prose.pack_batch(tokens, starts, self.bos, 2, 0, rows=8, length=64)
        self.assertEqual(batch, prose.pack_batch(tokens, starts, self.bos, 2, 0, rows=8, length=64))
        self.assertNotEqual(batch, prose.pack_batch(tokens, starts, self.bos, 2, 1, rows=8, length=64))
        begin = self.encoder.encode("Paragraph")
        for row, targets, weights, documents in zip(*batch):
            self.assertEqual({len(row), len(targets), len(weights), len(documents)}, {64})
            self.assertEqual(row[:1 + len(begin)], [self.bos, *begin])
            for i in range(63):
                self.assertEqual(targets[i], row[i + 1])
                self.assertEqual(weights[i], int(documents[i] == documents[i + 1]))
            self.assertGreater(documents[-1], 1)  # the rows are longer than a passage
            self.assertEqual(weights[row.index(self.end)], 0)

    def test_tokens_survive_the_file(self):
        tokens = array.array("H", [1, 0x8002, 3])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "train.bin.xz"
            path.write_bytes(prose.lzma.compress(prose.little_endian(tokens)))
            self.assertEqual(prose.read_tokens(path), tokens)

    def test_some_passages_are_held_out(self):
        count = sum(prose.held_out([f"text {n}"]) for n in range(2400))
        self.assertIn(count, range(60, 140))


class Recipes(unittest.TestCase):
    def test_the_folders_hold_what_the_recipes_say(self):
        folders = [path for name in RECIPES for path in (MODELS / name, MODELS / "study" / name) if path.exists()]
        self.assertIn(MODELS / "arithmetic-7m", folders)
        for folder in folders:
            recipe = RECIPES[folder.name]
            self.assertEqual(json.loads((folder / "config.json").read_text()), recipe.config)
            self.assertEqual(json.loads((folder / "generation_config.json").read_text()), recipe.generation_config())
            self.assertEqual(json.loads((folder / "training.json").read_text())["parameters"], parameters(recipe.config))
            data = (folder / "model.safetensors").read_bytes()
            (size,) = struct.unpack("<Q", data[:8])
            self.assertEqual(len(data) - 8 - size, 2 * parameters(recipe.config))

    def test_the_models_are_small_or_not_in_the_repository_and_their_shapes_fit(self):
        self.assertGreater(parameters(RECIPES["prose-12m"].config), 10_000_000)
        for name, recipe in RECIPES.items():
            config = recipe.config
            committed = (MODELS / name).exists() or (MODELS / "study" / name).exists()
            self.assertEqual(2 * parameters(config) < 16_000_000, committed, name)
            self.assertEqual(config["num_attention_heads"] % config["num_key_value_heads"], 0)
            self.assertLessEqual(recipe.length, config["max_position_embeddings"])
            self.assertTrue(all(token < config["vocab_size"] for token in (*recipe.eos, config["bos_token_id"])))
            self.assertIn(config["eos_token_id"], recipe.eos)

    def test_the_special_tokens_of_prose_are_the_last(self):
        for config in (RECIPES["prose-8m"].config, RECIPES["prose-12m"].config):
            first = config["vocab_size"] - len(tokenizer.SPECIAL)
            self.assertEqual(config["bos_token_id"], first + tokenizer.SPECIAL.index(tokenizer.BOS))
            self.assertEqual(config["eos_token_id"], first + tokenizer.SPECIAL.index(tokenizer.END))


class Driver(unittest.TestCase):
    def run_script(self, text, seconds=20.0):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
            script = pathlib.Path(folder) / "script.py"
            script.write_text(text)
            return train_study_models.run("model", [script], seconds), output.getvalue()

    def test_a_script_succeeds_or_fails_and_its_lines_are_shown(self):
        done, output = self.run_script("print('a line')")
        self.assertTrue(done)
        self.assertIn("model: a line\n", output)
        self.assertFalse(self.run_script("raise SystemExit(3)")[0])

    def test_a_script_that_hangs_is_ended_with_its_children(self):
        child = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        self.assertFalse(self.run_script(child + "time.sleep(60)", seconds=1.0)[0])
        self.assertTrue(self.run_script(child)[0])  # a child left behind does not hold it up

    def test_a_model_that_fails_is_named_and_raises_nothing(self):
        failed, nowhere = [], pathlib.Path("/dev/null/nowhere")
        args = types.SimpleNamespace(output=nowhere, prose=nowhere, minutes=3)
        with contextlib.redirect_stdout(io.StringIO()):
            train_study_models.make("qwen3-4m", args, 1, 0, failed)
        self.assertEqual(failed, ["qwen3-4m"])
        self.assertTrue(set(train_study_models.NAMES) <= set(RECIPES))


if __name__ == "__main__":
    unittest.main()
