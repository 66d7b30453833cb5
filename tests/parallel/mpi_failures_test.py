#!/usr/bin/env python3
"""A rank that is lost ends the job soon, with a message that names it, and nothing answers wrong.

usage: tests/parallel/mpi_failures_test.py TOOL SOURCE_FOLDER
"""
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

from ranks import Server, run

TOOL, SOURCE = sys.argv[1:3]
MODEL = os.path.join(SOURCE, "models", "arithmetic-7m")
LONG = {"prompt": [1] * 16, "max_tokens": 400, "temperature": 1, "seed": 3, "ignore_eos": True, "stream": True}
PROMPT = ["--prompt", "1 + 1 =", "--max-tokens", "4"]


class Failures(unittest.TestCase):
    def lose_rank(self, rank, number, *options):
        """What a client that was being answered got, and how the server ended."""
        with Server(TOOL, 3, "--rank-timeout", "2", *options) as server:
            response = server.ask(LONG)
            self.assertEqual(response.status, 200, response.read() if response.status != 200 else "")
            lines = []

            def read():
                try:
                    for line in response:
                        lines.append(line.decode().strip())
                except OSError:
                    pass
            reader = threading.Thread(target=read)
            reader.start()
            while not lines:
                time.sleep(0.01)
            os.kill(server.ranks[rank], number)
            status, errors = server.wait()
            reader.join()
            return lines, status, errors

    def check_end(self, rank, number):
        lines, status, errors = self.lose_rank(rank, number)
        self.assertNotEqual(status, 0)
        self.assertIn(f"rank {rank} on {os.uname().nodename}", errors)
        self.assertNotIn("data: [DONE]", lines, "no client takes it for a whole answer")
        return lines, errors

    def test_a_rank_that_is_killed(self):
        lines, _ = self.check_end(2, signal.SIGKILL)
        errors = [line for line in lines if '"error"' in line]
        self.assertTrue(errors, lines[-3:])

    def test_a_rank_that_hangs(self):
        lines, errors = self.check_end(1, signal.SIGSTOP)
        self.assertIn("has not answered for 2 s", errors)
        self.assertTrue([line for line in lines if '"error"' in line], lines[-3:])

    def test_rank_0_that_is_killed(self):
        lines, status, errors = self.lose_rank(0, signal.SIGKILL)
        self.assertNotEqual(status, 0, errors)
        self.assertNotIn("data: [DONE]", lines)

    def mixed(self, first, second):
        """Rank 0 and rank 1 with other arguments."""
        return run(["mpirun", "-n", "1", TOOL, "generate", *PROMPT, *first, ":",
                    "-n", "1", TOOL, "generate", *PROMPT, *second])

    def test_ranks_that_differ_in_settings(self):
        done = self.mixed([], ["--numerics", "exact-1"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("differs from rank 0 in the numerics", done.stderr)
        self.assertIn("rank 1 on", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_ranks_that_differ_in_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "model")
            shutil.copytree(MODEL, other)
            path = os.path.join(other, "model.safetensors")
            os.chmod(path, 0o600)
            with open(path, "r+b") as file:  # the lowest bits of some elements near the end
                size = os.path.getsize(path)
                for at in range(size - size // 4, size, 4096):
                    file.seek(at & ~1)
                    byte = file.read(1)[0]
                    file.seek(at & ~1)
                    file.write(bytes([byte ^ 1]))
            same = self.mixed([], ["--model", MODEL])
            self.assertEqual(same.returncode, 0, same.stderr)
            done = self.mixed([], ["--model", other])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 on", done.stderr)
        self.assertIn("has read another checkpoint than rank 0", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_rank_without_its_checkpoint(self):
        done = self.mixed([], ["--model", "/nowhere"])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"rank 1 on \S+: /nowhere: there is no such folder")
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
