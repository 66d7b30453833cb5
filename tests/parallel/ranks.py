"""The tool over several ranks, for the tests beside this file."""
import http.client
import json
import os
import re
import subprocess

PATIENCE = 90  # seconds, on a machine that does other things as well


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)


def mpirun(ranks, words):
    return run(["mpirun", "-n", str(ranks)] + words)


def children(process):
    return [int(child) for child in run(["ps", "-o", "pid=", "--ppid", str(process)]).stdout.split()]


class Server:
    """`reprofuse serve` over some ranks, and its processes by rank."""

    def __init__(self, tool, ranks, *options, wait=True, **popen):
        self.size = ranks
        self.ranks = {}
        self.process = subprocess.Popen(
            [tool, "serve", "--port", "0", "--quiet", "--threads", "1", "--tensor-parallel", str(ranks), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)
        if wait:
            line = self.process.stdout.readline()
            assert self.listens(line), (line, self.process.stderr.read())

    def listens(self, line):
        """Whether the line that it has printed says so; then its port and its processes are known."""
        found = re.search(r":(\d+)$", line.strip())
        if not found:
            return False
        self.port = int(found[1])
        self.ranks = self.find_ranks()
        assert sorted(self.ranks) == list(range(self.size)), self.ranks
        return True

    def find_ranks(self):
        """The children of mpirun, which is the child of the process that was started, as far as they have begun."""
        if self.size == 1:
            return {0: self.process.pid}
        ranks = {}
        for child in [rank for mpirun_process in children(self.process.pid) for rank in children(mpirun_process)]:
            try:
                with open(f"/proc/{child}/environ", "rb") as file:
                    for entry in file.read().split(b"\0"):
                        if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                            ranks[int(entry.split(b"=")[1])] = int(child)
            except OSError:
                pass
        return ranks

    def ask(self, body, path="/v1/completions"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                           {"Content-Type": "application/json", "Connection": "close"})
        return connection.getresponse()

    def wait(self):
        """Exit status, and what it wrote to stderr. One that does not end is a failure."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            for process in (*self.find_ranks().values(), *self.ranks.values(), self.process.pid):
                try:
                    os.kill(process, 9)
                except ProcessLookupError:
                    pass
            self.process.wait()
