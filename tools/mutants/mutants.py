#!/usr/bin/env python3
"""Breaks the program on purpose, one small change at a time, and sees whether a test notices.

  mutants.py               every mutant of the lists beside this file: a table, and how many were killed
  mutants.py ID...         some of them; an ID may have wildcards
  mutants.py --again       also those whose result is known
  mutants.py --check       only whether each mutant still fits the sources and names a test that exists

A mutant is an entry of a TOML file. In `file` the text `find` stands exactly once and becomes `replace`, which breaks the `claim`.
`test` is the binary that must notice, and `filter` says which of its tests (as --gtest_filter does). A mutant that nothing can
notice says why in `equivalent`.

The build is in build-mutants/, with a copy of the sources; the checkout is only read. What became of a mutant is kept there in
results.json, so that a run that was interrupted goes on. A result as it should be counts until the entry, the file that it
changes or a source of the tests it names is another.

A test that takes far more processor time than without the mutant has noticed it, however busy the machine is. One that waits
without an end has not: the mutant needs a test with a limit of its own. Exit status: 1 where a mutant survived that is not
equivalent, waited, did not compile, or is killed though it is called equivalent; 2 where nothing could be tried."""
import argparse
import dataclasses
import fnmatch
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEST_NAME = re.compile(r"^\s*(?:TYPED_)?TEST(_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
BINARY = re.compile(r"(?:reprofuse_test|add_executable)\(\s*(\w+)")
FAILED = re.compile(r"^\[  FAILED  \] ([^\s,]+)", re.MULTILINE)
PASSED = re.compile(r"^\[       OK \] (\S+)", re.MULTILINE)
OUT_OF_TIME = "its processor time, which ran out"
# The flags of a release, so that a cache of compilations knows what is not changed; no warnings, because a mutant may leave a
# variable unused; each source by itself, because one is changed at a time.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-w", "-DCMAKE_C_FLAGS=-w", "-DREPROFUSE_CUDA=OFF",
             "-DREPROFUSE_FUZZ=OFF", "-DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST"]
NOT_COPIED = re.compile(r"^(build.*|node_modules|__pycache__|\.git|\.cache)$")
MEMORY = 32 << 30  # a broken loop must not take the machine with it
WALL = 30  # seconds of waiting for one of processor time: when a test counts as one that waits without an end
WAITED = 1000


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
        self.texts = {str(path.relative_to(root)): path.read_text() for path in sorted((root / "src").rglob("*.[ch]pp"))}
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


class Scratch:
    """A copy of the sources and a build of it."""

    def __init__(self, root: pathlib.Path, patience: float) -> None:
        self.root, self.work, self.patience = root, root / "build-mutants", patience
        self.tree, self.build_folder = self.work / "tree", self.work / "tree" / "build"
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

    def command(self, log: str, command: list[str], seconds: float | None = None) -> tuple[int, str]:
        """Its exit status, and what it printed. It is ended when it takes too much of the processor, and, with all that it started
        and the status WAITED, when it waits far longer."""
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if seconds:
                resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))

        path = self.work / f"{log}.log"
        with open(path, "w") as output, subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                                         start_new_session=True, preexec_fn=limit) as process:
            try:
                process.wait(WALL * seconds if seconds else None)
            except subprocess.TimeoutExpired:
                pass
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)  # by which a build ends what it has started
                raise
            waited = process.returncode is None
            if waited:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return WAITED if waited else process.returncode, path.read_text(errors="replace")

    def configure(self) -> None:
        status, text = self.command("configure", ["cmake", "-S", str(self.tree), "-B", str(self.build_folder), *CONFIGURE])
        if status:
            raise CannotRun(f"the copy cannot be configured:\n{text[-2000:]}")

    def build(self, *binaries: str) -> tuple[int, str]:
        return self.command("build", ["cmake", "--build", str(self.build_folder), "--target", *binaries])

    def run(self, binary: str, tests: str) -> tuple[int, str]:
        usual = self.seconds.get((binary, tests))
        limit = None if usual is None else self.patience + 5 * usual
        return self.command(binary, [str(self.build_folder / "tests" / binary), f"--gtest_filter={tests}"], limit)

    def see_tests_pass(self, binary: str, mutants: list[Mutant]) -> None:
        """Without a mutant its tests pass, and each filter takes one at least: a failure is the mutant's work then."""
        status, text = self.build(binary)
        if status:
            raise CannotRun(f"{binary} cannot be built:\n{text[-4000:]}")
        for tests in sorted({mutant.filter for mutant in mutants}):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            status, text = self.run(binary, tests)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.seconds[binary, tests] = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            if status:
                raise CannotRun(f"{binary} fails without any mutant: {', '.join(FAILED.findall(text)) or text[-2000:]}")
            for pattern in tests.split(":"):
                if not fnmatch.filter(PASSED.findall(text), pattern):
                    raise CannotRun(f"{binary} passed no test called {pattern}")

    def try_mutant(self, mutant: Mutant) -> str:
        """What became of it: 'killed by TEST', 'SURVIVED', 'WAITED' or 'DID NOT COMPILE'."""
        path = self.tree / mutant.file
        whole = path.read_text()
        path.write_text(whole.replace(mutant.find, mutant.replace))
        try:
            if self.build(mutant.test)[0]:
                return "DID NOT COMPILE"
            status, text = self.run(mutant.test, mutant.filter)
            if status == 0:
                return "SURVIVED"
            if status == WAITED:
                return "WAITED"
            because = OUT_OF_TIME if status in (-signal.SIGXCPU, -signal.SIGKILL) else "the end of the process"
            return f"killed by {next(iter(FAILED.findall(text)), because)}"
        finally:
            path.write_text(whole)


class Results:
    """What became of each mutant, kept in a file."""

    def __init__(self, path: pathlib.Path, sources: Sources) -> None:
        self.path, self.sources = path, sources
        self.known: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}

    def of(self, mutant: Mutant) -> str | None:
        entry = self.known.get(mutant.id, {})
        return entry["result"] if entry.get("key") == self.sources.key(mutant) and verdict(mutant, entry["result"])[1] else None

    def keep(self, mutant: Mutant, result: str) -> None:
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


def try_all(scratch: Scratch, mutants: list[Mutant], results: Results, again: bool) -> int:
    bad = []
    known = {} if again else {mutant.id: result for mutant in mutants if (result := results.of(mutant))}
    for binary, group in itertools.groupby(mutants, lambda mutant: mutant.test):
        group = list(group)
        if unknown := [mutant for mutant in group if mutant.id not in known]:
            scratch.see_tests_pass(binary, unknown)
        for mutant in group:
            result = known.get(mutant.id) or scratch.try_mutant(mutant)
            results.keep(mutant, result)
            line, good = verdict(mutant, result)
            print(f"{mutant.id:36}{line}{' (known)' if mutant.id in known else ''}", flush=True)
            bad += [] if good else [mutant]
    different = [mutant for mutant in mutants if not mutant.equivalent]
    killed = sum(mutant not in bad for mutant in different)
    print(f"{killed} of {len(different)} mutants were killed ({100 * killed / max(1, len(different)):.1f} %), "
          f"and {len(mutants) - len(different)} are called equivalent")
    for mutant in bad:
        print(f"not noticed: {mutant.id}: {mutant.claim}")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the checkout")
    parser.add_argument("--lists", type=pathlib.Path, default=pathlib.Path(__file__).parent, help="the folder of lists")
    parser.add_argument("--patience", type=float, default=20.0,
                        help="seconds of the processor beyond five times what tests usually take")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended, too
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
        scratch = Scratch(options.root, options.patience)
        scratch.tree.mkdir(parents=True, exist_ok=True)
        scratch.copy_sources()
        scratch.configure()
        return try_all(scratch, chosen, Results(scratch.work / "results.json", sources), options.again)
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
