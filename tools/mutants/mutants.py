#!/usr/bin/env python3
"""Breaks the program on purpose, one small change at a time, and sees whether a test notices.

  mutants.py               every mutant of the lists beside this file: a table, and how many were killed
  mutants.py ID...         some of them; an ID may have wildcards
  mutants.py --again       also those whose result is known
  mutants.py --check       only whether each mutant still fits the sources and names a test that exists

A mutant is an entry of a TOML file. In `file` the text `find` stands exactly once and becomes `replace`, which breaks the `claim`.
`test` is the binary that must notice, and `filter` says which of its tests (as --gtest_filter does). A mutant that nothing can
notice says why in `equivalent`.

The builds are in build-mutants/, each with a copy of the sources; the checkout is only read. One is made for each of --jobs, and
takes the mutants of one test binary after the other. ccache, which makes whole again what a mutant changed, and lld are used
where they are. What became of a mutant is kept in results.json, so that a run that was interrupted goes on. A result as it should
be counts until the entry, the file that it changes or a source of the tests it names is another.

A test that takes far more processor time than without the mutant has noticed it, however busy the machine is. One that waits
without an end has not: the mutant needs a test with a limit of its own. Exit status: 1 where a mutant survived that is not
equivalent, waited, did not compile, or is killed though it is called equivalent; 2 where some could not be tried."""
import argparse
import concurrent.futures
import dataclasses
import fnmatch
import hashlib
import itertools
import json
import math
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEST_NAME = re.compile(r"^\s*(?:TYPED_)?TEST(_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
BINARY = re.compile(r"(?:reprofuse_test|add_executable)\(\s*(\w+)")
RUN = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)
PASSED = re.compile(r"^\[       OK \] (\S+)", re.MULTILINE)
# What computes has the flags of a release; no warnings, because a mutant may leave a variable unused; each source by itself,
# because one is changed at a time.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-w", "-DCMAKE_C_FLAGS=-w", "-DREPROFUSE_CUDA=OFF",
             "-DREPROFUSE_FUZZ=OFF", "-DREPROFUSE_FAST_COMPILE=ON", "-DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST"]
IF_THERE = {"ccache": "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "ld.lld": "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"}
NOT_COPIED = re.compile(r"^(build.*|node_modules|__pycache__|\.git|\.cache)$")
MEMORY = 32 << 30  # a broken loop must not take the machine with it
WALL = 30  # seconds of waiting for one of processor time: when a test counts as one that waits without an end
WAITED = 1000
LOOK = 0.1  # seconds between looks at a process
TRIES = 3  # of a test that fails and was stopped
STOPPED = 2.0  # seconds that took so much longer than they should that the machine, or this process, was stopped
PATIENCE = "20000"  # milliseconds that the server's tests wait for what never comes
INTERRUPTED = threading.Event()


class CannotRun(Exception):
    """Nothing can be said about the mutants."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    id: str
    file: str
    find: str
    replace: str
    claim: str
    test: str
    filter: str = "*"
    equivalent: str = ""


def load(folder: pathlib.Path) -> list[Mutant]:
    """Those of one file together, so that each file is compiled once to be whole again."""
    mutants = []
    for file in sorted(folder.glob("*.toml")):
        try:
            mutants += [Mutant(**entry) for entry in tomllib.loads(file.read_text())["mutant"]]
        except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
            raise CannotRun(f"{file}: {error}") from error
    ids = [mutant.id for mutant in mutants]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise CannotRun(f"given twice: {', '.join(sorted(twice))}")
    if not mutants:
        raise CannotRun(f"{folder}: no mutants")
    return sorted(mutants, key=lambda mutant: (mutant.test, mutant.file))


class Sources:
    """What the lists are held against: texts of sources, names of test binaries and of tests."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.texts = {str(path.relative_to(root)): path.read_text()
                      for folder in ("src", "apps") for path in sorted((root / folder).rglob("*.[ch]pp"))}
        lists = [path.read_text() for path in (root / "tests").rglob("CMakeLists.txt")]
        self.binaries = {name for text in lists for name in BINARY.findall(text)}
        self.tests: dict[str, list[str]] = {}  # the texts of the files that have it
        for text in (path.read_text() for path in sorted((root / "tests").rglob("*.cpp"))):
            for kind, suite, name in set(TEST_NAME.findall(text)):
                full = f"*/{suite}.{name}/*" if kind == "_P" else f"{suite}.{name}"
                self.tests.setdefault(full, []).append(text)

    def named(self, pattern: str) -> list[str]:
        """The tests of a pattern of --gtest_filter; those with parameters are */SUITE.NAME/*, and need such a pattern."""
        plain = re.sub(r"/[^.]*$", "/*", re.sub(r"^[^./]*/", "*/", pattern))
        return sorted(name for name in self.tests if fnmatch.fnmatchcase(name, plain))

    def key(self, mutant: Mutant) -> str:
        """What a result counts for."""
        texts = {text for pattern in mutant.filter.split(":") for name in self.named(pattern) for text in self.tests[name]}
        whole = json.dumps([dataclasses.astuple(mutant), self.texts[mutant.file], sorted(texts), CONFIGURE])
        return hashlib.sha256(whole.encode()).hexdigest()

    def faults(self, mutant: Mutant) -> list[str]:
        """Why it cannot be tried any more: what a change of the sources, or of the tests, left behind."""
        faults = []
        found = self.texts.get(mutant.file, "").count(mutant.find)
        if found != 1 or not mutant.find:
            elsewhere = [path for path, text in self.texts.items() if mutant.find in text and path != mutant.file]
            hint = f"; it stands in {', '.join(elsewhere[:3])}" if elsewhere else ""
            what = "is not there" if mutant.file not in self.texts else f"has the text {found} times, not once"
            faults.append(f"{mutant.file} {what}{hint}: {mutant.find.strip().splitlines()[0]}")
        if mutant.find == mutant.replace:
            faults.append("it changes nothing")
        if mutant.test not in self.binaries:
            faults.append(f"no test binary is called {mutant.test}")
        for pattern in mutant.filter.split(":"):
            if not self.named(pattern):
                faults.append(f"no test is called {pattern}")
        return [f"{mutant.id}: {fault}" for fault in faults]


class Ended(NamedTuple):
    """How a command ended; was_stopped: for seconds it, and this program, did not run."""
    status: int
    text: str
    seconds: float  # of the processor
    was_stopped: bool


def computes(session: int) -> bool:
    """Whether a thread of a process of it could run, or is kept from it by others, and does not just wait."""
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[3]) != session:
                continue
            if any(stat.read_text().rpartition(")")[2].split()[0] in "RDT" for stat in path.parent.glob("task/*/stat")):
                return True
        except OSError:  # it has ended
            continue
    return False


class Scratch:
    """A copy of the sources and a build of it."""

    def __init__(self, root: pathlib.Path, patience: float, number: int) -> None:
        self.root, self.work, self.patience = root, root / "build-mutants" / str(number), patience
        self.tree, self.build_folder = self.work / "tree", self.work / "tree" / "build"
        self.environment: dict[str, str] = {}
        self.seconds: dict[tuple[str, str], float] = {}  # of the processor that tests of a binary take

    def copy_sources(self) -> None:
        """Files that changed only, so that a second run compiles those alone."""
        wanted = set()
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not NOT_COPIED.match(name)]
            wanted |= {os.path.relpath(os.path.join(folder, name), self.root) for name in files}
        for folder, folders, files in os.walk(self.tree):
            folders[:] = [name for name in folders if os.path.join(folder, name) != str(self.build_folder)]
            for path in (pathlib.Path(folder, name) for name in files):
                if str(path.relative_to(self.tree)) not in wanted:
                    path.unlink()
        for name in wanted:
            source, copy = self.root / name, self.tree / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())
                copy.chmod(source.stat().st_mode)

    def command(self, log: str, command: list[str], seconds: float | None = None) -> "Ended":
        """It is ended when it takes too much of the processor, and, with all that it started, when it waits far longer."""
        limits = ["prlimit", f"--as={MEMORY}", "--core=0"]
        if seconds:
            limits.append(f"--cpu={math.ceil(seconds)}:{math.ceil(seconds) + 5}")
        path = self.work / f"{log}.log"
        with open(path, "w") as output:
            # pylint: disable-next=consider-using-with
            process = subprocess.Popen([*limits, *command], stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                       start_new_session=True, env=self.environment)
        waited, was_stopped = 0.0, False
        for look in itertools.count(1):
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            before = time.monotonic()
            if INTERRUPTED.wait(LOOK):
                os.killpg(process.pid, signal.SIGTERM)  # by which a build ends what it has started
                process.wait()
                raise CannotRun("interrupted")
            was_stopped |= time.monotonic() - before > STOPPED
            if seconds and look % 10 == 0 and not computes(process.pid):
                waited += 10 * LOOK
                if waited > WALL * seconds:
                    os.killpg(process.pid, signal.SIGKILL)
        process.returncode = os.waitstatus_to_exitcode(status)
        ended_as = WAITED if seconds and waited > WALL * seconds else process.returncode
        return Ended(ended_as, path.read_text(errors="replace"), usage.ru_utime + usage.ru_stime, was_stopped)

    def prepare(self) -> None:
        if self.environment:
            return
        self.tree.mkdir(parents=True, exist_ok=True)
        self.copy_sources()
        self.environment = {**os.environ, "CCACHE_BASEDIR": str(self.tree), "REPROFUSE_TEST_PATIENCE": PATIENCE}
        found = [flag for program, flag in IF_THERE.items() if shutil.which(program)]
        ended = self.command("configure", ["cmake", "-S", str(self.tree), "-B", str(self.build_folder), *CONFIGURE, *found])
        if ended.status:
            raise CannotRun(f"the copy cannot be configured:\n{ended.text[-2000:]}")

    def build(self, binary: str) -> "Ended":
        return self.command("build", ["cmake", "--build", str(self.build_folder), "--parallel", "2", "--target", binary])

    def run(self, binary: str, tests: str) -> "Ended":
        """Up to the first failure. Once more where it was stopped before that: the clock that a test looks at went on."""
        usual = self.seconds.get((binary, tests))
        limit = None if usual is None else self.patience + 5 * usual
        command = [str(self.build_folder / "tests" / binary), f"--gtest_filter={tests}", "--gtest_break_on_failure"]
        for _ in range(TRIES):
            ended = self.command(binary, command, limit)
            if ended.status == 0 or not ended.was_stopped:
                break
        return ended

    def see_tests_pass(self, binary: str, mutants: list[Mutant]) -> None:
        """Without a mutant its tests pass, and each filter takes one at least: a failure is the mutant's work then."""
        ended = self.build(binary)
        if ended.status:
            raise CannotRun(f"{binary} cannot be built:\n{ended.text[-4000:]}")
        for tests in sorted({mutant.filter for mutant in mutants}):
            ended = self.run(binary, tests)
            self.seconds[binary, tests] = ended.seconds
            if ended.status:
                raise CannotRun(f"{binary} fails without any mutant: {ended.text[-2000:]}")
            for pattern in tests.split(":"):
                if not fnmatch.filter(PASSED.findall(ended.text), pattern):
                    raise CannotRun(f"{binary} passed no test called {pattern}")

    def try_mutant(self, mutant: Mutant) -> str:
        """What became of it: 'killed by TEST', 'SURVIVED', 'WAITED' or 'DID NOT COMPILE'."""
        path = self.tree / mutant.file
        whole = path.read_text()
        path.write_text(whole.replace(mutant.find, mutant.replace))
        try:
            if self.build(mutant.test).status:
                return "DID NOT COMPILE"
            ended = self.run(mutant.test, mutant.filter)
            if ended.status == 0:
                return "SURVIVED"
            if ended.status == WAITED:
                return "WAITED"
            if ended.status in (-signal.SIGXCPU, -signal.SIGKILL):
                return "killed by its processor time, which ran out"
            return f"killed by {(RUN.findall(ended.text) or ['the end of the process'])[-1]}"
        finally:
            path.write_text(whole)


class Results:
    """What became of each mutant, kept in a file."""

    def __init__(self, path: pathlib.Path, sources: Sources) -> None:
        self.path, self.sources, self.lock = path, sources, threading.Lock()
        self.known: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}

    def of(self, mutant: Mutant) -> str | None:
        entry = self.known.get(mutant.id, {})
        return entry["result"] if entry.get("key") == self.sources.key(mutant) and verdict(mutant, entry["result"])[1] else None

    def keep(self, mutant: Mutant, result: str) -> None:
        with self.lock:
            self.known[mutant.id] = {"key": self.sources.key(mutant), "result": result}
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(self.known, indent=1) + "\n")
            new.replace(self.path)


def verdict(mutant: Mutant, result: str) -> tuple[str, bool]:
    """The line of the table, and whether it is as it should be."""
    if not mutant.equivalent:
        return result, result.startswith("killed")
    if result == "SURVIVED":
        return f"equivalent: {mutant.equivalent}", True
    return f"{result}, though it is called equivalent", False


def try_group(scratches: "queue.SimpleQueue[Scratch]", group: list[Mutant], results: Results, again: bool) -> dict[str, bool]:
    """Those of one binary; which of them are as they should be."""
    known = {} if again else {mutant.id: result for mutant in group if (result := results.of(mutant))}
    scratch, good = scratches.get(), {}
    try:
        if unknown := [mutant for mutant in group if mutant.id not in known]:
            scratch.prepare()
            scratch.see_tests_pass(group[0].test, unknown)
        for mutant in group:
            result = known.get(mutant.id) or scratch.try_mutant(mutant)
            results.keep(mutant, result)
            line, good[mutant.id] = verdict(mutant, result)
            print(f"{mutant.id:44} {line}{' (known)' if mutant.id in known else ''}", flush=True)
        return good
    finally:
        scratches.put(scratch)


def try_all(scratches: "queue.SimpleQueue[Scratch]", mutants: list[Mutant], results: Results, again: bool) -> int:
    groups = sorted((list(group) for _, group in itertools.groupby(mutants, lambda mutant: mutant.test)), key=len, reverse=True)
    with concurrent.futures.ThreadPoolExecutor(scratches.qsize()) as pool:
        tries = [pool.submit(try_group, scratches, group, results, again) for group in groups]
    for untried in (error for done in tries if (error := done.exception())):
        raise untried
    good = {name: is_good for done in tries for name, is_good in done.result().items()}
    different = [mutant for mutant in mutants if not mutant.equivalent]
    killed = sum(good[mutant.id] for mutant in different)
    print(f"{killed} of {len(different)} mutants were killed ({100 * killed / max(1, len(different)):.1f} %), "
          f"and {len(mutants) - len(different)} are called equivalent")
    for mutant in mutants:
        if not good[mutant.id]:
            print(f"not noticed: {mutant.id}: {mutant.claim}")
    return 0 if all(good.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="builds at once; each has a copy of the sources")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the checkout")
    parser.add_argument("--lists", type=pathlib.Path, default=pathlib.Path(__file__).parent, help="the folder of lists")
    parser.add_argument("--patience", type=float, default=20.0,
                        help="seconds of the processor beyond five times what tests usually take")
    options = parser.parse_args()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: INTERRUPTED.set())  # so that what was started is ended, too
    try:
        mutants = load(options.lists)
        sources = Sources(options.root)
        if faults := [fault for mutant in mutants for fault in sources.faults(mutant)]:
            raise CannotRun("\n".join(faults))
        if options.check:
            print(f"{len(mutants)} mutants fit the sources")
            return 0
        chosen = [mutant for mutant in mutants
                  if not options.ids or any(fnmatch.fnmatchcase(mutant.id, pattern) for pattern in options.ids)]
        if not chosen:
            raise CannotRun(f"no mutant is called {' or '.join(options.ids)}")
        scratches: "queue.SimpleQueue[Scratch]" = queue.SimpleQueue()
        for number in range(1, 1 + options.jobs):
            scratches.put(Scratch(options.root, options.patience, number))
        folder = options.root / "build-mutants"
        folder.mkdir(exist_ok=True)
        return try_all(scratches, chosen, Results(folder / "results.json", sources), options.again)
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
