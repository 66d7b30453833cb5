#!/usr/bin/env python3
"""Writes the tables of README.md, docs/performance.md and docs/measurements/*.md from docs/measurements/*.json.

Usage: performance_tables.py            writes the tables
       performance_tables.py --check    says where documents are not what the measurements say; exit status 1 if anywhere
       performance_tables.py record NAME BENCH_JSON --commit COMMIT --command COMMAND [--date DATE] [--integer-peak ...]
                                        keeps what `reprofuse bench linear --json`, `bench model` or `bench engine` wrote

A document says where a table belongs, and what it shows of which measurement; what lies between is this tool's:

    <!-- table NAME KIND [CONTRACT] -->
    <!-- end -->

KIND is `source` (when and how it was measured), of `bench linear` also `projections` or `forward` with a CONTRACT, of
`bench model` also `steps`, and of `bench engine` also `requests`.
"""
import argparse
import datetime
import difflib
import json
import pathlib
import re
import sys
import textwrap
from typing import Any

Json = dict[str, Any]
Lines = list[str]

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 130  # where lines of text end
SHOWN_DIFFERENCES = 20


class Unusable(Exception):
    """A document or a measurement that no table can be made of."""


def table(header: Lines, rows: list[Lines]) -> Lines:
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, *rows]]
    return [lines[0], "|" + "---|" * len(header), *lines[1:]]


def run_of(result: Json, contract: str) -> Json:
    for run in result["runs"]:
        if run["contract"] == contract:
            return run
    raise Unusable(f"no contract '{contract}'")


def baseline_header(run: Json) -> Lines:
    return [cell for name in run["baselines"] for cell in (name, f"times {name}")]


def part_of_peak(row: Json, integer_peak: Json) -> float:
    """Of the FMA rate where that is the limit, else of the rate of integer products."""
    if row["fma_fraction"] is not None:
        return row["fma_fraction"]
    operations = 2 * integer_peak["products_per_term"] * row["m"] * row["n"] * row["k"]
    return operations / row["linear"]["median_s"] / integer_peak["operations_per_second"]


def projection_row(row: Json, baselines: Lines, integer_peak: Json) -> Lines:
    cells = [row["name"], f"{row['n']} x {row['k']}", str(row["m"]), f"{row['linear']['median_s'] * 1e6:.1f}",
             f"{row['read_fraction']:.2f}", f"{part_of_peak(row, integer_peak):.2f}"]
    for name in baselines:
        cells += [f"{row[name]['median_s'] * 1e6:.1f}", f"{row[name + '_ratio']:.2f}"]
    return cells


def projections(measurement: Json, contract: str) -> Lines:
    """Every projection at every M, in microseconds."""
    run = run_of(measurement["result"], contract)
    is_integer = any(row["fma_fraction"] is None for row in run["rows"])
    integer_peak = measurement["integer_peak"] if is_integer else {}
    peak = "of INT8 peak" if is_integer else "of FMA peak"
    header = ["projection", "N x K", "M", "us", "of read bandwidth", peak, *baseline_header(run)]
    return table(header, [projection_row(row, run["baselines"], integer_peak) for row in run["rows"]])


def forward_row(row: Json, baselines: Lines, others: list[Json]) -> Lines:
    cells = [str(row["m"]) + ("" if row["with_head"] else " (no head)"), f"{row['linear_s'] * 1e3:.2f}"]
    for name in baselines:
        cells += [f"{row[name + '_s'] * 1e3:.2f}", f"{row[name + '_ratio']:.2f}"]
    for run in others:
        same_pass = [one for one in run["forwards"] if (one["model"], one["m"]) == (row["model"], row["m"])]
        if len(same_pass) != 1:
            raise Unusable(f"'{run['contract']}' was measured {len(same_pass)} times at M = {row['m']}")
        cells.append(f"{same_pass[0]['linear_s'] * 1e3:.2f}")
    return cells


def forward(measurement: Json, contract: str) -> Lines:
    """All projections of a forward pass added up, in milliseconds, beside the other contracts of the run."""
    run = run_of(measurement["result"], contract)
    others = [one for one in measurement["result"]["runs"] if one is not run]
    header = ["M", f"{contract}, ms", *baseline_header(run), *(one["contract"] for one in others)]
    return table(header, [forward_row(row, run["baselines"], others) for row in run["forwards"]])


def steps(measurement: Json) -> Lines:
    """A step of a whole model at every batch, in milliseconds, and prefill at the largest."""
    rows = measurement["result"]["rows"]
    batches = sorted({row["batch"] for row in rows})
    found = {(row["numerics"], row["batch"]): row for row in rows}
    header = ["numerics", *(f"batch {batch}" for batch in batches), f"prefill at batch {batches[-1]}, tokens/s"]
    lines = []
    for numerics, pins_bits in {row["numerics"]: row["pins_bits"] for row in rows}.items():
        label = f"`{numerics}`" + ("" if pins_bits else ", same engine")
        times = [f"{found[numerics, batch]['step_seconds'] * 1e3:.2f}" for batch in batches]
        lines.append([label, *times, f"{found[numerics, batches[-1]]['prefill_tokens_per_second']:,.0f}"])
    return table(header, lines)


def requests_row(row: Json) -> Lines:
    compared = row["compared_answers"]
    return [f"`{row['numerics']}`", str(row["batch"]), f"{row['tokens_per_second']:,.0f}", f"{row['times_baseline']:.2f}",
            f"{row['decode_pass']['median_s'] * 1e3:.2f}", f"{row['outside_model'] * 100:.1f} %",
            f"{row['prefill_tokens_per_second']:,.0f}", f"{row['first_token_s'] * 1e3:.0f}",
            f"{row['changed_answers']} of {compared}" if compared else "-"]


def requests(measurement: Json) -> Lines:
    """Whole requests through the serving engine."""
    result = measurement["result"]
    header = ["numerics", "batch", "tokens/s", f"times {result['baseline']}", "step, ms", "outside the model",
              "prefill, tokens/s", "first token, ms", "answers moved"]
    return table(header, [requests_row(row) for row in result["rows"]])


def source(measurement: Json) -> Lines:
    """When, of what and how: the device and the vendor's library where the bench tells them."""
    result = measurement["result"]
    run = result.get("runs", [result])[0]
    parts = [measurement["date"], f"commit {measurement['commit']}", run.get("device"), run.get("vendor"), "one run"]
    text = ", ".join(part for part in parts if part) + f": `{measurement['command']}`"
    return textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


KINDS = {"source": source, "projections": projections, "forward": forward, "steps": steps, "requests": requests}
BEGIN, END = "<!-- table ", "<!-- end -->"
BLOCK = re.compile(rf"^{BEGIN}(\S+) (\S+)(?: (\S+))? -->$.*?^{END}$", re.MULTILINE | re.DOTALL)


def made_anew(block: re.Match[str], measurements: dict[str, Json]) -> str:
    """A table with its markers."""
    name, kind, contract = block.groups()
    marker = block[0].splitlines()[0]
    if name not in measurements:
        raise Unusable(f"{marker}: there is no measurement '{name}'; there are {', '.join(measurements) or 'none'}")
    if kind not in KINDS:
        raise Unusable(f"{marker}: '{kind}' is none of {', '.join(KINDS)}")
    try:
        lines = KINDS[kind](measurements[name], *([contract] if contract else []))
    except (IndexError, KeyError, TypeError, Unusable) as error:
        raise Unusable(f"{marker}: '{name}' has no such table: {error}") from error
    return "\n".join([marker, "", *lines, "", END])


def rewritten(text: str, measurements: dict[str, Json]) -> str:
    """A document with every table made anew. Markers come in pairs."""
    blocks = list(BLOCK.finditer(text))
    if not text.count(BEGIN) == text.count(END) == len(blocks):
        raise Unusable(f"{text.count(BEGIN)} '{BEGIN}...' and {text.count(END)} '{END}' are not {len(blocks)} pairs")
    return BLOCK.sub(lambda block: made_anew(block, measurements), text)


def rewritten_documents(root: pathlib.Path) -> dict[pathlib.Path, str]:
    """Every document with its tables made anew. Every measurement is shown somewhere."""
    folder = root / "docs" / "measurements"
    measurements = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    shown: set[str] = set()
    texts = {}
    for document in [root / "README.md", root / "docs" / "performance.md", *sorted(folder.glob("*.md"))]:
        old = document.read_text()
        shown |= {block[1] for block in BLOCK.finditer(old)}
        try:
            texts[document] = rewritten(old, measurements)
        except Unusable as error:
            raise Unusable(f"{document}: {error}") from error
    hidden = measurements.keys() - shown
    if hidden:
        raise Unusable(f"{root}: no table shows {', '.join(sorted(hidden))}")
    return texts


def differences(name: str, old: str, new: str) -> Lines:
    found = list(difflib.unified_diff(old.splitlines(), new.splitlines(), name, "measurements", lineterm="", n=0))
    left = len(found) - SHOWN_DIFFERENCES
    return found[:SHOWN_DIFFERENCES] + ([f"... and {left} lines more"] if left > 0 else [])


def holds_rows(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(one, dict) for one in value)
    return isinstance(value, dict) and any(holds_rows(one) for one in value.values())


def one_row_per_line(value: Any, indent: str = "") -> str:
    """JSON in which a row of a bench is one line."""
    if not holds_rows(value):
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, list):
        parts = [one_row_per_line(one, inner) for one in value]
    else:
        parts = [f"{json.dumps(key)}: {one_row_per_line(one, inner)}" for key, one in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return opening + "\n" + ",\n".join(inner + part for part in parts) + "\n" + indent + closing


def record(arguments: argparse.Namespace) -> None:
    measurement = {"date": arguments.date, "commit": arguments.commit, "command": arguments.command,
                   "result": json.loads(arguments.bench_json.read_text())}
    if arguments.integer_peak:
        rate, products = arguments.integer_peak
        measurement = {"integer_peak": {"operations_per_second": rate, "products_per_term": int(products)}, **measurement}
    folder = arguments.root / "docs" / "measurements"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{arguments.name}.json").write_text(one_row_per_line(measurement) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a table would change")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="folder of README.md and docs/")
    recorded = parser.add_subparsers(dest="action").add_parser("record", help="keep what a bench wrote with --json")
    recorded.add_argument("name", help="of the measurement: linear-h200-llama-3.2-3b")
    recorded.add_argument("bench_json", type=pathlib.Path)
    recorded.add_argument("--commit", required=True, help="what was measured")
    recorded.add_argument("--command", required=True, help="how it was measured, without --json and --plot")
    recorded.add_argument("--integer-peak", nargs=2, type=float, metavar=("RATE", "PRODUCTS"),
                          help="operations per second that integer products reach, and products per term of a contract")
    recorded.add_argument("--date", default=datetime.date.today().isoformat(), help="when (default: today)")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.action == "record":
        record(arguments)
        return 0
    try:
        texts = rewritten_documents(arguments.root)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 1
    if not arguments.check:
        for document, text in texts.items():
            document.write_text(text)
        return 0
    found = [line for document, text in texts.items() for line in differences(document.name, document.read_text(), text)]
    print("\n".join(found) or "every table is what the measurements say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
