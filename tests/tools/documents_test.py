#!/usr/bin/env python3
"""Every relative link and every path in the Markdown files leads somewhere, every command line of the tool in them has options
that the tool knows, and the output of quickstart in the README is what golden/answers.json says.

Usage: documents_test.py TOOL"""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED_FOLDERS = re.compile(r"^(build.*|node_modules|\..*)$")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FOLDERS = "apps|bench|cmake|deploy|docs|examples|fuzz|golden|include|models|src|tests|tools|web"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w.+/{{}}*,-]*")
TO_ADD = re.compile(r"<!-- paths to add: (.*?) -->")
COMMAND = re.compile(r"^(?:build/bin/)?reprofuse ((?:.*\\\n)*.*)$", re.MULTILINE)
INLINE_COMMAND = re.compile(r"(?<!`)`(?:build/bin/)?reprofuse ([^`]*)`(?!`)")
OPTIONAL_COMMANDS = {"serve"}  # a build without the server does not have it
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
TOOL = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build" / "bin" / "reprofuse"


def documents(root: pathlib.Path) -> list[pathlib.Path]:
    found = sorted(root.rglob("*.md"))
    return [file for file in found if not any(SKIPPED_FOLDERS.match(part) for part in file.relative_to(root).parts[:-1])]


def anchors(text: str) -> set[str]:
    """What GitHub makes of headings."""
    headings = HEADING.findall(CODE_BLOCK.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: pathlib.Path) -> list[str]:
    broken = []
    for link in LINK.findall(CODE_BLOCK.sub("", document.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            broken.append(link)
    return broken


def alternatives(path: str) -> list[str]:
    """src/{a,b}/c is src/a/c and src/b/c."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [one for choice in braces[1].split(",")
            for one in alternatives(path[:braces.start()] + choice + path[braces.end():])]


def missing_paths(document: pathlib.Path, root: pathlib.Path) -> list[str]:
    """Paths from the top of the repository that name nothing. A path may have wildcards, leave out the suffix, or have a
    word in capitals that stands for any name. A document may list paths that a reader is to add."""
    text = document.read_text()
    mentioned = [one for path in PATH.findall(text) for one in alternatives(path.rstrip(".,-"))]
    missing = [path for path in mentioned if not re.search(r"/[A-Z]{3,}\b", path.removesuffix("README.md"))
               and not any(root.glob(path.rstrip("/"))) and not any(root.glob(path + ".*"))]
    to_add = [pattern for listed in TO_ADD.findall(text) for pattern in listed.split(", ")]
    unused = [pattern for pattern in to_add if not fnmatch.filter(missing, pattern)]
    return [path for path in missing if not any(fnmatch.fnmatch(path, pattern) for pattern in to_add)] + unused


class Tool:
    """The help of the commands, asked for once each."""

    def __init__(self, program: pathlib.Path) -> None:
        self.program = program
        self.helps: dict[str, str] = {}

    def help_of(self, command: str) -> str:
        if command not in self.helps:
            done = subprocess.run([self.program, *command.split(), "--help"], capture_output=True, text=True, check=False)
            self.helps[command] = done.stdout if done.returncode == 0 else ""
        return self.helps[command]

    def unknown(self, line: str) -> list[str]:
        """What a command line has that the tool does not know: the command, or options of it."""
        words = re.match(r"[a-z][a-z ]*", line.split("#")[0].split("\"")[0])
        if not words:
            return []
        command = words[0].split()
        while command and not self.help_of(" ".join(command)):
            command.pop()  # `ablate all` is a command with a value
        if not command:
            return [] if words[0].split()[0] in OPTIONAL_COMMANDS else [line]
        known = set(OPTION.findall(self.help_of(" ".join(command))))
        return sorted(set(OPTION.findall(line.split(" # ")[0])) - known)


def unknown_commands(document: pathlib.Path, tool: Tool) -> list[str]:
    text = document.read_text()
    lines = COMMAND.findall("\n".join(CODE_BLOCK.findall(text))) + INLINE_COMMAND.findall(CODE_BLOCK.sub("", text))
    return [word for line in lines for word in tool.unknown(line)]


class Documents(unittest.TestCase):
    def test_relative_links_resolve(self) -> None:
        self.assertGreater(len(documents(ROOT)), 10)
        for document in documents(ROOT):
            with self.subTest(document=document):
                self.assertEqual(broken_links(document), [])

    def test_paths_exist(self) -> None:
        for document in documents(ROOT):
            with self.subTest(document=document):
                self.assertEqual(missing_paths(document, ROOT), [])

    def test_the_tool_knows_the_commands(self) -> None:
        tool = Tool(TOOL)
        for document in documents(ROOT):
            with self.subTest(document=document):
                self.assertEqual(unknown_commands(document, tool), [])
        self.assertGreater(len(tool.helps), 5)

    def test_pages_to_be_read_in_one_go_are_short(self) -> None:
        for name, limit in (("README.md", 150), ("docs/performance.md", 200), ("docs/kernel-designs.md", 120)):
            self.assertLess(len((ROOT / name).read_text().splitlines()), limit, name)

    def test_the_readme_shows_the_golden_answer(self) -> None:
        golden = json.loads((ROOT / "golden" / "answers.json").read_text())
        shown = f"{golden['question']}\n\n{golden['text']}\ndigest {golden['tree_digests']['fma-1']}\n"
        self.assertIn(shown, (ROOT / "README.md").read_text())


class BrokenDocuments(unittest.TestCase):
    """Controls: the checks above see what is wrong."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "src").mkdir()
        (self.root / "src" / "one.cpp").touch()
        (self.root / "build-dev").mkdir()
        (self.root / "build-dev" / "other.md").touch()
        self.document = self.root / "page.md"

    def test_links(self) -> None:
        self.document.write_text("# A `b` (c)\n[1](page.md#a-b-c) [2](#a-b-c) [3](gone.md) [4](#gone) [5](https://x.org/y)\n"
                                 "```\n[6](gone.md)\n```\n")
        self.assertEqual(broken_links(self.document), ["gone.md", "#gone"])
        self.assertEqual(documents(self.root), [self.document])

    def test_paths(self) -> None:
        self.document.write_text("src/one.cpp, src/one, src/{one,two}.cpp, src/*.cpp, src/*.cu; `src/gone/` or a/src/x.\n")
        self.assertEqual(missing_paths(self.document, self.root), ["src/two.cpp", "src/*.cu", "src/gone/"])

    def test_paths_to_add(self) -> None:
        self.document.write_text("src/new/x.cpp, src/old.cpp and src/NAME.cpp <!-- paths to add: src/new/*, src/one* -->\n")
        self.assertEqual(missing_paths(self.document, self.root), ["src/old.cpp", "src/one*"])

    def test_commands(self) -> None:
        self.document.write_text("```\nbuild/bin/reprofuse generate --prompt x --gone  # --not-an-option\n"
                                 "reprofuse bench linear \\\n  --m 1 --lost\nreprofuse forget --prompt\n```\n"
                                 "Then `reprofuse probe --check\n--missing`.\n")
        self.assertEqual(unknown_commands(self.document, Tool(TOOL)),
                         ["--gone", "--lost", "forget --prompt", "--missing"])


if __name__ == "__main__":
    unittest.main()
