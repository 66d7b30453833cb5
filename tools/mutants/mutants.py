#!/usr/bin/env python3
"""Breaks the program on purpose, one small change at a time, and sees whether a test notices.

  mutants.py               every mutant of the lists beside this file: a table, and how many were killed
  mutants.py ID...         some of them; an ID may have wildcards
  mutants.py --check       only whether each mutant still fits the sources and names a test that exists

A mutant is an entry of a TOML file. In `file` the text `find` stands exactly once and becomes `replace`, which breaks the `claim`.
`test` is the binary that must notice, and `filter` says which of its tests (as --gtest_filter does). Where they do not notice,
the whole binary is run. A mutant that nothing can notice says why in `equivalent`.

The build is in build-mutants/, with a copy of the sources; the checkout is only read. Exit status: 1 where a mutant survived
that is not equivalent, did not compile, or is killed though it is called equivalent; 2 where nothing could be tried."""
import argparse
import dataclasses
import fnmatch
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEST_NAME = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
BINARY = re.compile(r"(?:reprofuse_test|add_executable)\(\s*(\w+)")
FAILED = re.compile(r"^\[  FAILED  \] ([^\s,]+)", re.MULTILINE)
PASSED = re.compile(r"^\[       OK \] (\S+)", re.MULTILINE)
# No warnings: a mutant may leave a variable unused. -O1 for what computes, and -O0 above it, compile fastest.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Mutants", "-DCMAKE_CXX_FLAGS_MUTANTS=-O1 -w", "-DCMAKE_C_FLAGS_MUTANTS=-O1 -w",
             "-DREPROFUSE_CUDA=OFF", "-DREPROFUSE_FUZZ=OFF", "-DREPROFUSE_FAST_COMPILE=ON",
             "-DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST"]
NOT_COPIED = re.compile(r"^(build.*|node_modules|__pycache__|\.git|\.cache)$")
MEMORY = 32 << 30  # a broken loop must not take the machine with it


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
        tests = [path.read_text() for path in (root / "tests").rglob("*.cpp")]
        self.tests = {".".join(name) for text in tests for name in TEST_NAME.findall(text)}

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
            plain = re.sub(r"/[^.]*$", "", re.sub(r"^[^./]*/", "", pattern))  # without the names of parameters
            if not fnmatch.filter(self.tests, plain):
                faults.append(f"no test is called {pattern}")
        return [f"{mutant.id}: {fault}" for fault in faults]


class Scratch:
    """A copy of the sources and a build of it."""

    def __init__(self, root: pathlib.Path, patience: float) -> None:
        self.root, self.work, self.patience = root, root / "build-mutants", patience
        self.tree, self.build_folder = self.work / "tree", self.work / "build"
        self.seconds: dict[str, float] = {}  # that the tests of a binary take

    def copy_sources(self) -> None:
        """Files that changed only, so that a second run compiles those alone."""
        wanted = set()
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not NOT_COPIED.match(name)]
            wanted |= {os.path.relpath(os.path.join(folder, name), self.root) for name in files}
        for path in [path for path in self.tree.rglob("*") if path.is_file() or path.is_symlink()]:
            if str(path.relative_to(self.tree)) not in wanted:
                path.unlink()
        for name in wanted:
            source, copy = self.root / name, self.tree / name
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())
                copy.chmod(source.stat().st_mode)

    def command(self, log: str, command: list[str], limit: float | None = None) -> tuple[bool, str]:
        """Whether it ended well, and what it printed. Ended with all that it started when it takes too long."""
        def limit_memory() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

        path = self.work / f"{log}.log"
        with open(path, "w") as output, subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                                         start_new_session=True, preexec_fn=limit_memory) as process:
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                output.write("\ntook too long\n")
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)  # by which a build ends what it has started
                raise
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode == 0, path.read_text(errors="replace")

    def configure(self) -> None:
        done, text = self.command("configure", ["cmake", "-S", str(self.tree), "-B", str(self.build_folder), *CONFIGURE])
        if not done:
            raise CannotRun(f"the copy cannot be configured:\n{text[-2000:]}")

    def build(self, *binaries: str) -> tuple[bool, str]:
        return self.command("build", ["cmake", "--build", str(self.build_folder), "--target", *binaries])

    def run(self, binary: str, tests: str = "*") -> tuple[bool, str]:
        limit = self.patience + 5 * self.seconds[binary] if binary in self.seconds else None
        return self.command(binary, [str(self.build_folder / "tests" / binary), f"--gtest_filter={tests}"], limit)

    def see_everything_pass(self, mutants: list[Mutant]) -> None:
        """Without a mutant every test passes, and each filter takes one at least: a failure is the mutant's work then."""
        binaries = sorted({mutant.test for mutant in mutants})
        done, text = self.build(*binaries)
        if not done:
            raise CannotRun(f"the copy cannot be built:\n{text[-4000:]}")
        for binary in binaries:
            began = time.monotonic()
            done, text = self.run(binary)
            self.seconds[binary] = time.monotonic() - began
            if not done:
                raise CannotRun(f"{binary} fails without any mutant: {', '.join(FAILED.findall(text)) or text[-2000:]}")
            for mutant in [mutant for mutant in mutants if mutant.test == binary]:
                if not any(fnmatch.filter(PASSED.findall(text), pattern) for pattern in mutant.filter.split(":")):
                    raise CannotRun(f"{mutant.id}: {binary} passed no test called {mutant.filter}")

    def try_mutant(self, mutant: Mutant) -> str:
        """What became of it: 'killed by TEST', 'SURVIVED' or 'did not compile'."""
        path = self.tree / mutant.file
        whole = path.read_text()
        path.write_text(whole.replace(mutant.find, mutant.replace))
        try:
            if not self.build(mutant.test)[0]:
                return "did not compile"
            passed, text = self.run(mutant.test, mutant.filter)
            if passed:
                passed, text = self.run(mutant.test)
            if passed:
                return "SURVIVED"
            return f"killed by {next(iter(FAILED.findall(text)), 'the end of the process, or of its time')}"
        finally:
            path.write_text(whole)


def verdict(mutant: Mutant, result: str) -> tuple[str, bool]:
    """The line of the table, and whether it is as it should be."""
    if not mutant.equivalent:
        return result, result.startswith("killed")
    if result == "SURVIVED":
        return f"equivalent: {mutant.equivalent}", True
    return f"{result}, though it is called equivalent", False


def try_all(scratch: Scratch, mutants: list[Mutant]) -> int:
    bad = []
    for mutant in mutants:
        line, good = verdict(mutant, scratch.try_mutant(mutant))
        print(f"{mutant.id:32}  {line}", flush=True)
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
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the checkout")
    parser.add_argument("--lists", type=pathlib.Path, default=pathlib.Path(__file__).parent, help="the folder of lists")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds beyond five times what the tests usually take")
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
        scratch.see_everything_pass(chosen)
        return try_all(scratch, chosen)
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
