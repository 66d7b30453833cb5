#!/usr/bin/env python3
"""The manual page names every command that the tool has, and no option that it has not.

Usage: man_page_check.py PAGE TOOL
"""
import re
import subprocess
import sys


def help_of(tool, *command):
    return subprocess.run([tool, *command, "--help"], check=True, capture_output=True, text=True).stdout


def subcommands(text):
    listed = text.partition("\nSubcommands:\n")[2]
    return re.findall(r"^  (\w\S*)", listed, re.MULTILINE)


def main():
    page = open(sys.argv[1], encoding="utf-8").read().replace("\\-", "-")
    tool = sys.argv[2]
    wrong = []
    texts = [help_of(tool)]
    for command in subcommands(texts[0]):
        texts.append(help_of(tool, command))
        if f"\n.B {command}\n" not in page:
            wrong.append(f"the command {command} is not in the manual page")
        for inner in subcommands(texts[-1]):
            texts.append(help_of(tool, command, inner))
            if f"\n.B {command} {inner}\n" not in page:
                wrong.append(f"the command {command} {inner} is not in the manual page")
    # `systemctl enable --now` is another program's.
    named = set(re.findall(r"--[a-z][a-z-]*", page.replace("--now", "")))
    known = set(re.findall(r"--[a-z][a-z-]*", "\n".join(texts)))
    wrong += [f"the manual page names {option}, which no command has" for option in sorted(named - known)]
    if len(texts) < 3 or not named:
        wrong.append("no commands or options were found")
    if wrong:
        sys.exit("\n".join(wrong))


main()
