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

from ranks import Server, children, run

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

    def test_health_and_all_requests_tell_of_a_rank_that_is_lost(self):
        with Server(TOOL, 2) as server:
            self.assertEqual(server.ask(None, "/health").status, 200)
            streams = [server.ask(LONG), server.ask({**LONG, "seed": 4})]
            whole = []
            other = threading.Thread(target=lambda: whole.append(server.ask({**LONG, "stream": False}).status))
            other.start()
            for stream in streams:
                self.assertIn(b"data: ", stream.readline())
            os.kill(server.ranks[1], signal.SIGKILL)
            seen = self.health_until_the_end(server)
            for stream in streams:
                text = stream.read().decode()
                self.assertIn('"error"', text)
                self.assertIn(f"rank 1 on {os.uname().nodename}", text)
                self.assertNotIn("[DONE]", text)
            other.join()
            self.assertGreaterEqual(whole[0], 500)
            self.assertIn(503, seen, "after a rank was killed under load")
            self.assertNotIn(200, seen[seen.index(503):])
            server.wait()

    def health_until_the_end(self, server):
        seen = []
        while True:
            try:
                seen.append(server.ask(None, "/health").status)
            except OSError:
                return seen

    def test_a_server_that_does_nothing_notices_a_rank_that_is_lost(self):
        with Server(TOOL, 2) as server:
            os.kill(server.ranks[1], signal.SIGKILL)
            seen = self.health_until_the_end(server)
            status, errors = server.wait()
        self.assertIn(503, seen)
        self.assertNotEqual(status, 0)
        self.assertIn(f"rank 1 on {os.uname().nodename}", errors)

    def test_a_server_that_is_told_to_stop_while_it_loads_ends_soon_and_well(self):
        for rank_begun in (False, True):
            with Server(TOOL, 2, wait=False) as server:
                while not (server.find_ranks() if rank_begun else children(server.process.pid)):
                    self.assertIsNone(server.process.poll())
                for stopped in server.find_ranks().values() if rank_begun else ():
                    os.kill(stopped, signal.SIGSTOP)  # so that it cannot have loaded before it is told
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.1)
                for stopped in server.find_ranks().values() if rank_begun else ():
                    os.kill(stopped, signal.SIGCONT)
                status, errors = server.wait()
                self.assertEqual(status, 0, errors)
                self.assertEqual(errors.count("ready"), 0, errors)

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
