#!/usr/bin/env python3
"""Says where a source names a contract or a baseline outside the tables that define them.

usage: tools/check_contract_names.py [ROOT]

Code asks a contract for facts: its schemes, their limits, what multiplies, whether it pins its bits. A name in a condition would be a
second table. What is told:

- a literal of C++, C, CUDA, Python or JavaScript that is a name, a list of names or a key with a name in it ("times_layercast");
- a name within any literal that something is compared with;
- a name as a key or a variable of Python or JavaScript;
- a comparison with a scheme of kernels/reference, by its name or its address, or with the default contract;
- a scheme of kernels/reference by name or address, or all of them at once, outside the tables of backends;
- a name in a condition or a case of a shell script.

Names that data types have too ("bf16") are told where they are compared with numerics.
"""
import fnmatch
import re
import sys

import sources

TABLES = ("src/ops/contract.cpp", "src/ops/baselines.cpp")
SCHEMES = "src/kernels/reference/reference.hpp"
SHELL_SCRIPTS = ("quickstart", "run-tests", "packaging/postinst", "packaging/postrm", "packaging/prerm")
FOLDERS = ("src", "bench", "fuzz", "examples", "deploy", "packaging", "cmake")  # for each language below; tests may name contracts

# Where a name may stand, each place with its reason.
ALLOWED = {
    "include/reprofuse/context.hpp": "kDefaultNumerics, and what the names mean",
    "include/reprofuse/c/base.h": "what the names mean",
    "src/kernels/reference/*": "schemes, named after the contract that brought them",
    "src/kernels/vendor/*": "functions of the vendors' libraries, by their own names",
    "src/kernels/cuda/*/audit_rules.py": "what the kernels of a contract may be made of, under its name",
    "src/study/ablation/ablate.hpp": "the vendors' products that the study runs, by their own names",
    "web/report/paper.js": "what a paper measured, under the names that its methods have here",
}
# Where a scheme may stand, in no comparison.
SCHEME_TABLES = {
    "src/kernels/*/backend.cpp": "the kernels that a backend has for each scheme",
    "src/kernels/cuda/linear/*": "what a contract brings to CUDA's layers, in the folder of its name",
}
# Files that say, in the definition of a constant, by what an experiment computes.
INPUTS = {
    "apps/cli/study_demo_command.cpp": "what the demonstration runs",
    "examples/cmake_project/main.cpp": "what a user's program computes by",
    "models/study/run_study.py": "what the study runs",
    "bench/transformers_step.py": "what runs in transformers, named like the baselines that it stands beside",
}
CONSTANT = re.compile(r"^(?:inline )?(?:constexpr .*\bk[A-Z]\w*(?:\[\])?|[A-Z][A-Z_, ]*) = ")

DTYPES = ("f32", "bf16", "f16")
ROW = re.compile(r'^\s*\{\.name = "([^"]+)"', re.MULTILINE)
SCHEME = re.compile(r"kernels::(?:\w+Scheme|CacheFormat) (k\w+)\{")

STRINGS = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
C_COMMENTS = r"//[^\n]*|/\*.*?\*/"
TOKENS = {  # what is no code: literals, and comments
    "c": re.compile(rf"""R"(?P<raw>\w*)\(.*?\)(?P=raw)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)'|{C_COMMENTS}""", re.DOTALL),
    "js": re.compile(rf"{STRINGS}|`(?:[^`\\]|\\.)*`|{C_COMMENTS}", re.DOTALL),
    "py": re.compile(rf'[rbf]*""".*?"""|[rbf]*(?:{STRINGS})|#[^\n]*', re.DOTALL),
}
LANGUAGES = {".py": "py", ".js": "js", ".mjs": "js"}
DOCSTRING = re.compile(r'^\s*"""', re.DOTALL)

COMPARED_BEFORE = re.compile(r"(?:[!=]==?|\b(?:in|case)\b|\b(?:find|count|contains|starts_with|ends_with|startswith|endswith|"
                             r"includes|startsWith|endsWith|compare|indexOf|index|has)\()\s*[\[({]?\s*$")
COMPARED_AFTER = re.compile(r"\s*[\])}]?\s*(?:[!=]==?|\b(?:not in|in)\b)")
OF_NUMERICS = re.compile(r"(?:numerics|contract|baseline|method|\bname)\w*(?:\(\)|\.\w+|->\w+|[\"']?\])?\s*"
                         r"(?:[!=]==?|\bin\b)\s*[\[({]?\s*$|baselines\w*\.\w+\(\s*$|\.end\(\), $")
NUMERICS_AFTER = re.compile(r"\s*(?:[!=]==?|\bin\b)\s*\S*(?:numerics|contract|baseline)")


def words(text):
    """"times_layercast,fma-1" has times, layercast and fma-1."""
    return [word for word in re.split(r"[^A-Za-z0-9-]+", text) if word]


def told_of_literal(text, start, end, names):
    """The names in a literal that must not be there."""
    literal, before, after = text[start:end], text[max(0, start - 120):start], text[end:end + 120]
    found = [word for word in words(literal) if word in names]
    plain = [word for word in found if word not in DTYPES]
    of_type = [word for word in found if word in DTYPES]
    is_compared = COMPARED_BEFORE.search(before) or COMPARED_AFTER.match(after)
    is_list = all(word in names for word in words(literal))
    told = plain if is_compared or is_list or not re.search(r"\s", literal) else []
    return told + (of_type if OF_NUMERICS.search(before) or NUMERICS_AFTER.match(after) else [])


def found_in_code(text, language, names, first_line=1):
    """Pairs of a line and a name. Expressions within templates are code, too."""
    found, code = [], []
    at = 0
    for token in TOKENS[language].finditer(text):
        line = first_line + text.count("\n", 0, token.start())
        code.append(text[at:token.start()])
        at = token.end()
        code.append('""' + "\n" * token[0].count("\n"))
        line_before = text[text.rfind("\n", 0, token.start()) + 1:token.start()]
        if token[0].startswith(("//", "/*", "#")) or (not line_before.strip() and DOCSTRING.match(token[0])):
            continue
        is_template = token[0].startswith("`") or "f" in token[0][:2]
        expressions = list(re.finditer(r"\{([^{}]+)\}", token[0])) if language != "c" and is_template else []
        for expression in expressions:
            inner_line = line + token[0].count("\n", 0, expression.start())
            found += found_in_code(expression[1], language, names, inner_line)
        if expressions:  # which may nest: a name in quotes is told wherever it stands
            found += [(line + token[0].count("\n", 0, quoted.start()), quoted[2]) for name in names if name not in DTYPES
                      for quoted in re.finditer(rf"(['\"])({re.escape(name)})\1", token[0])]
        else:
            found += [(line, name) for name in told_of_literal(text, token.start(), token.end(), names)]
    if language == "c":
        return found
    code.append(text[at:])
    for number, line in enumerate("".join(code).split("\n"), first_line):
        found += [(number, name) for identifier in re.findall(r"[A-Za-z_]\w*", line) for name in identifier.split("_")
                  if name in names and name not in DTYPES]
    return found


def compared_schemes(text, schemes):
    """Pairs of a line and a scheme that something is compared with."""
    one = rf"(?:\w+::)*(?P<scheme>{'|'.join(schemes)})\b(?:\.name)?"
    patterns = [re.compile(rf"[!=]=\s*&?\s*{one}"), re.compile(rf"{one}\s*[!=]=")]
    return [(text.count("\n", 0, match.start()) + 1, match["scheme"]) for pattern in patterns for match in pattern.finditer(text)]


def named_schemes(text, schemes):
    """The same of all that stand anywhere. Kernels have constants that bear a scheme's name, with other members."""
    pattern = re.compile(rf"\breference::(?P<by_address>{'|'.join(schemes)})\b|\b(?P<by_name>{'|'.join(schemes)})\.name\b"
                         r"|\busing namespace (?:\w+::)*(?P<all>reference)\b")
    return [(text.count("\n", 0, match.start()) + 1, match["by_address"] or match["by_name"] or match["all"])
            for match in pattern.finditer(text)]


def found_in_shell(text, names):
    one = rf"(?P<name>{'|'.join(map(re.escape, names))})"
    pattern = re.compile(rf"""(?:=|==|!=|=~)\s*["']?{one}["']?\s*\]|^\s*(?:[^()\s]*\|)?["']?{one.replace('name', 'case')}["']?"""
                         r"(?:\|[^()\s]*)?\)", re.MULTILINE)
    return [(text.count("\n", 0, match.start("name") if match["name"] else match.start("case")) + 1, match["name"] or match["case"])
            for match in pattern.finditer(text)]


def complaints(root):
    read = lambda path: (root / path).read_text(encoding="utf-8")
    names = [name for table in TABLES for name in ROW.findall(read(table))]
    if not names:
        return [f"{TABLES[0]} has no row that this script can read"]
    schemes = SCHEME.findall(read(SCHEMES))
    texts = sources.texts(root, *FOLDERS, "include", "apps")
    texts |= sources.texts(root, *FOLDERS, "tools", "web", "models", endings={".py", ".js", ".mjs", ".sh"})
    texts |= {path: read(path) for path in SHELL_SCRIPTS if (root / path).exists()}
    told = []
    for where, text in texts.items():
        if where in TABLES or any(fnmatch.fnmatch(where, pattern) for pattern in ALLOWED):
            continue
        suffix = where[where.rfind("."):]
        lines = text.splitlines()
        if suffix == ".sh" or where in SHELL_SCRIPTS:
            found = found_in_shell(text, names)
        else:
            found = found_in_code(text, LANGUAGES.get(suffix, "c"), names)
            found += compared_schemes(text, [*schemes, "kDefaultNumerics"])
            if not any(fnmatch.fnmatch(where, pattern) for pattern in SCHEME_TABLES):
                found += named_schemes(text, schemes)
        if where in INPUTS:
            found = [(line, name) for line, name in found if not CONSTANT.match(lines[line - 1])]
        told += [f"{where}:{line} names '{name}': ask the contract for a fact instead" for line, name in sorted(set(found))]
    return told


if __name__ == "__main__":
    sys.exit(sources.main(complaints))
