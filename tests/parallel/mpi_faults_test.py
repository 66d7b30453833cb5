#!/usr/bin/env python3
"""Rounds of faults at random: no wrong answer, no hang, and one message that names rank and host.

usage: tests/parallel/mpi_faults_test.py TOOL SOURCE_FOLDER [ROUNDS [SEED]]

A round loses a rank (kill -9, or SIGSTOP) while the model is loaded or answers are under way, lets writing fail as on a
full disk, or gives a rank another checkpoint. Prints a line for each round, and exits 1 where one went wrong.
"""
import collections
import http.client
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from ranks import PATIENCE, Server, run

TOOL, SOURCE = sys.argv[1:3]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 20
MODEL = os.path.join(SOURCE, "models", "arithmetic-7m")
HOST = os.uname().nodename
KINDS = ("kill", "stop", "disk", "checkpoint", "kill while loading")
TIMEOUT = ["--rank-timeout", "2"]
QUESTIONS = [{"prompt": [7 + i] * (8 + i), "max_tokens": 120, "temperature": i % 2, "seed": i, "ignore_eos": True,
              "digest": True, "stream": i % 3 == 0} for i in range(6)]
ASKED_ONCE = ["generate", "--chat", "--prompt", "What is 12 + 30?", "--digest", "tree-1", "--threads", "1"]


class Wrong(Exception):
    """What must not happen."""


def require(condition, *what):
    if not condition:
        raise Wrong(*what)


def answer(server, question):
    """(text, digest, whole): what came of an answer. Whole: it ended as answers do. Other ends are errors."""
    try:
        reply = server.ask(question)
        if not question["stream"]:
            body = json.loads(reply.read())
            if reply.status != 200:
                require(reply.status in (500, 503), "status", reply.status, body)
                return "", None, False
            return body["choices"][0]["text"], body["choices"][0]["digest"], True
        text, digest = "", None
        for line in reply:
            data = line.decode().strip().removeprefix("data: ")
            if data == "[DONE]":
                return text, digest, True
            if not data or '"error"' in data:
                continue
            for choice in json.loads(data).get("choices", []):
                text += choice["text"]
                digest = choice.get("digest", digest)
        return text, digest, False
    except (OSError, http.client.HTTPException, json.JSONDecodeError):
        return "", None, False


class Load:
    """All questions at once, again and again until one of them fails, each answer compared with the expected one."""

    def __init__(self, server, expected):
        self.server, self.expected = server, expected
        self.whole, self.broken, self.wrong = 0, 0, []
        self.threads = [threading.Thread(target=self.ask, args=(i,)) for i in range(len(QUESTIONS))]
        for thread in self.threads:
            thread.start()

    def ask(self, index):
        while True:
            try:
                text, digest, whole = answer(self.server, QUESTIONS[index])
            except Wrong as wrong:
                self.wrong.append(str(wrong))
                return
            right = self.expected[index]
            if not (text == right[0] and digest == right[1] if whole else right[0].startswith(text)):
                self.wrong.append(f"question {index}: {text!r} {digest}, not {right}")
            if not whole:
                self.broken += 1
                return
            self.whole += 1

    def finish(self):
        for thread in self.threads:
            thread.join(PATIENCE)
            require(not thread.is_alive(), "a client waits for ever")
        require(not self.wrong, *self.wrong)


def check_end(server, rank):
    """The job has ended in an error, and its message names the rank and its host, once."""
    try:
        status, errors = server.wait()
    except subprocess.TimeoutExpired as late:
        raise Wrong("the job has not ended") from late
    require(status != 0, "the job ended with 0", errors)
    told = [line for line in errors.splitlines() if line.startswith("reprofuse: ")]
    require(len(told) == 1 and f"rank {rank} on {HOST}" in told[0], f"no word of rank {rank} on {HOST}:", errors)
    return told[0].removeprefix("reprofuse: ")


def lose(dice, expected, number):
    ranks = dice.choice((2, 3))
    rank = dice.randrange(ranks)
    with Server(TOOL, ranks, *TIMEOUT) as server:
        load = Load(server, expected)
        time.sleep(dice.random() * 2)
        os.kill(server.ranks[rank], number)
        said = check_end(server, rank)
        load.finish()
        return f"rank {rank} of {ranks}; {load.whole} answers whole, {load.broken} broken off: {said}"


def lose_while_loading(dice):
    """A rank that is killed before ranks have met is named by mpirun alone, which is asked to be quiet."""
    ranks = dice.choice((2, 3))
    rank = dice.randrange(ranks)
    with Server(TOOL, ranks, *TIMEOUT, wait=False) as server:
        deadline = time.monotonic() + PATIENCE
        while rank not in (found := server.find_ranks()):
            require(time.monotonic() < deadline and server.process.poll() is None, "the ranks have not begun")
        time.sleep(dice.random() * 0.3)
        os.kill(found[rank], signal.SIGKILL)
        try:
            status, errors = server.wait()
        except subprocess.TimeoutExpired as late:
            raise Wrong("the job has not ended") from late
        require(status != 0, "the job ended with 0", errors)
        return f"rank {rank} of {ranks}; the job ended with {status}"


def fill_disk(dice, expected):
    """Nothing can be written from a moment on: receipts fail, other answers do not, and later all is well again."""
    if dice.random() < 0.5:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOOL, *ASKED_ONCE, "--tensor-parallel", "2"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=PATIENCE, check=False)
        require(done.returncode != 0 and "cannot be written" in done.stderr, done)
        return next(line for line in done.stderr.splitlines() if "cannot be written" in line).removeprefix("reprofuse: ")
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, "key")
        made = run([TOOL, "keys", "new", key])
        require(made.returncode == 0, made)
        log = os.path.join(folder, "log")
        os.mkdir(log)
        with Server(TOOL, 2, "--receipt-dir", log, env={**os.environ, "REPROFUSE_KEY": key}) as server:
            asked = {**QUESTIONS[1], "receipt": True}
            before = server.ask(asked)
            require(before.status == 200, before.read())
            limits = resource.prlimit(server.ranks[0], resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            during = server.ask(asked)
            require(during.status >= 500, "a receipt was given that nothing keeps", during.status, during.read())
            load = [answer(server, question) for question in QUESTIONS]
            require(all(found == (*right, True) for found, right in zip(load, expected)), load)
            resource.prlimit(server.ranks[0], resource.RLIMIT_FSIZE, limits)
            after = server.ask(asked)
            require(after.status == 200, after.read())
            server.process.send_signal(signal.SIGTERM)
            status, errors = server.wait()
            require(status == 0, errors)
        return f"a receipt was refused with {during.status}, {len(QUESTIONS)} answers were right, and then all was well"


def differ(dice, alone):
    """One byte of one rank's checkpoint. The answer is that of rank 0's checkpoint, or none comes."""
    ranks = dice.choice((2, 3))
    rank = dice.randrange(ranks)
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "model")
        shutil.copytree(MODEL, other)
        path = os.path.join(other, "model.safetensors")
        os.chmod(path, 0o600)
        at = dice.randrange(os.path.getsize(path) // 20, os.path.getsize(path))
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << dice.randrange(8)]))
        words = []
        for i in range(ranks):
            words += [":"] if i else []
            words += ["-n", "1", TOOL, *ASKED_ONCE, "--model", other if i == rank else MODEL]
        done = run(["mpirun", "--quiet", *words])
        if rank == 0:  # which may be the only one that has this byte: then the model is rank 0's
            alone = run([TOOL, *ASKED_ONCE, "--model", other]).stdout
    if done.returncode == 0:
        require(done.stdout == alone, "a wrong answer", alone, done)
        return f"byte {at} of rank {rank} of {ranks}: not of a share that two of them read, and the answer is right"
    require(done.stdout == "", done)
    told = [line for line in done.stderr.splitlines() if "another checkpoint" in line]
    require(len(told) == 1 and f" on {HOST}" in told[0], done.stderr)
    require(rank == 0 or f"rank {rank} on" in told[0], done.stderr)
    return f"byte {at} of rank {rank} of {ranks}: " + told[0].removeprefix("reprofuse: ")


def main():
    print(f"{ROUNDS} rounds, seed {SEED}", flush=True)
    alone = run([TOOL, *ASKED_ONCE]).stdout
    with Server(TOOL, 1) as server:
        expected = [answer(server, question)[:2] for question in QUESTIONS]
    require(all(digest for _, digest in expected), expected)
    require(len({digest for _, digest in expected}) == len(QUESTIONS), "the control: other questions, other digests")
    counts, failures = collections.Counter(), 0
    for number in range(ROUNDS):
        dice = random.Random(f"{SEED}/{number}")
        kind = KINDS[number % len(KINDS)]
        work = {"kill": lambda: lose(dice, expected, signal.SIGKILL),
                "stop": lambda: lose(dice, expected, signal.SIGSTOP),
                "disk": lambda: fill_disk(dice, expected),
                "checkpoint": lambda: differ(dice, alone),
                "kill while loading": lambda: lose_while_loading(dice)}[kind]
        begin = time.monotonic()
        try:
            outcome = work()
            counts[kind] += 1
        except (Wrong, AssertionError, OSError, subprocess.TimeoutExpired) as wrong:
            outcome = "WRONG: " + (" ".join(str(part) for part in wrong.args) or repr(wrong))
            failures += 1
        print(f"{number:3} {kind:18} {time.monotonic() - begin:5.1f} s  {outcome}", flush=True)
    print(", ".join(f"{kind}: {counts[kind]} as they should be" for kind in KINDS), f"{failures} wrong", sep="; ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
