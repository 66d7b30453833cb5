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


class Server:
    """`reprofuse serve` over some ranks, and its processes by rank."""

    def __init__(self, tool, ranks, *options):
        self.process = subprocess.Popen(
            [tool, "serve", "--port", "0", "--quiet", "--threads", "1", "--tensor-parallel", str(ranks), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r":(\d+)$", line.strip())
        assert found, (line, self.process.stderr.read())
        self.port = int(found[1])
        self.ranks = self.find_ranks()
        assert sorted(self.ranks) == list(range(ranks)), self.ranks

    def find_ranks(self):
        """The children of mpirun, which is the child of the process that was started."""
        ranks = {}
        mpirun_process = run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)]).stdout.strip()
        for child in run(["ps", "-o", "pid=", "--ppid", mpirun_process]).stdout.split():
            with open(f"/proc/{child}/environ", "rb") as file:
                for entry in file.read().split(b"\0"):
                    if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                        ranks[int(entry.split(b"=")[1])] = int(child)
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
            for process in (*self.ranks.values(), self.process.pid):
                try:
                    os.kill(process, 9)
                except ProcessLookupError:
                    pass
            self.process.wait()
