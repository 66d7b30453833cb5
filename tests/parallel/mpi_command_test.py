#!/usr/bin/env python3
"""The commands over several ranks give what they give on one.

usage: tests/parallel/mpi_command_test.py TOOL SOURCE_FOLDER
"""
import json
import re
import signal
import sys
import unittest

from ranks import Server, mpirun, run

TOOL, SOURCE = sys.argv[1:3]
QUESTION = ["generate", "--chat", "--prompt", "What is 12 + 30?", "--digest", "tree-1"]


class Commands(unittest.TestCase):
    def test_an_answer_and_its_digest_are_those_of_one_rank(self):
        alone = run([TOOL, *QUESTION])
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertIn("tree-1:", alone.stdout)
        for ranks in (2, 3):
            together = mpirun(ranks, [TOOL, *QUESTION])
            self.assertEqual(together.stdout, alone.stdout, together.stderr)
        started = run([TOOL, *QUESTION, "--tensor-parallel", "2"])
        self.assertEqual(started.stdout, alone.stdout, started.stderr)
        other = mpirun(2, [TOOL, *QUESTION, "--numerics", "exact-1"])  # the control
        self.assertNotEqual(other.stdout, alone.stdout)

    def test_many_prompts_from_stdin_reach_rank_0(self):
        lines = "".join(json.dumps({"prompt": f"{i} + {i} ="}) + "\n" for i in range(3))
        words = ["generate", "--jsonl", "-", "--max-tokens", "8", "--digest", "tree-1", "--threads", "1"]
        alone = run([TOOL, *words], input=lines)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual(run([TOOL, *words, "--tensor-parallel", "2"], input=lines).stdout, alone.stdout)

    def test_no_schedule_moves_a_bit_on_two_ranks(self):
        done = mpirun(2, [TOOL, "stress", "--requests", "16", "--schedules", "2"])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("16 requests on 2 ranks, each cpu", done.stdout)
        self.assertIn("the committed one: every device gives it", done.stdout)

    def test_a_server_over_ranks_answers_with_the_digest_of_one_and_stops_when_told_to(self):
        alone = run([TOOL, *QUESTION])
        body = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "digest": True, "temperature": 0}
        with Server(TOOL, 2) as server:
            answer = json.loads(server.ask(body, "/v1/chat/completions").read())
            self.assertIn(answer["choices"][0]["message"]["content"].strip(), alone.stdout)
            self.assertIn(answer["choices"][0]["digest"], alone.stdout)
            metrics = server.ask(None, "/metrics").read().decode()
            server.process.send_signal(signal.SIGTERM)
            status, errors = server.wait()
            self.assertIn("stopping", errors)
            self.assertEqual(status, 0, errors)
        values = {name: float(value) for name, value in re.findall(r"^reprofuse:(\S+) (\S+)$", metrics, re.MULTILINE)}
        label = 'model_name="arithmetic-7m"'
        self.assertEqual(values[f"num_ranks{{{label}}}"], 2)
        for rank in range(2):
            of_rank = f'{{{label},rank="{rank}"}}'
            self.assertEqual(values[f"rank_passes_total{of_rank}"], values[f"engine_passes_total{{{label}}}"])
            self.assertGreater(values[f"rank_gathered_bytes_total{of_rank}"], 0)
            self.assertGreater(values[f"rank_wait_seconds_total{of_rank}"], 0)
        self.assertNotIn('rank="2"', metrics)

    def test_more_ranks_than_heads_are_refused_with_those_that_are_possible(self):
        done = mpirun(9, [TOOL, *QUESTION])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"a model of \d+ heads cannot be split over 9 ranks; 1 to \d+ are possible")
        self.assertEqual(done.stderr.count("cannot be split"), 1, "rank 0 speaks for all")

    def test_a_command_that_computes_on_one_rank_says_so(self):
        done = mpirun(2, [TOOL, "probe"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("probe computes on one rank, and mpirun has started 2", done.stderr)
        done = mpirun(2, [TOOL, *QUESTION, "--tensor-parallel", "3"])
        self.assertIn("mpirun has started 2 ranks, and --tensor-parallel asks for 3", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
