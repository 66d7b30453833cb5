#!/usr/bin/env python3
"""Makes docs/study/: models answer tasks by four methods in three orders on each platform, and a page compares the answers.

run_study.py run --machine NAME --platforms LIST   makes the runs that are missing; an interrupted one goes on where it stopped
run_study.py report                                writes report.html and README.md to docs/study/, of all runs that are whole

A run is build-study/MODEL/TASK/MACHINE-PLATFORM.run. Runs of other machines are put beside them. What `bench linear`, `bench
engine`, `study memory` and `ablate` wrote as bench-*.json, memory-*.json and ablate-*.json into build-study/ is in the page, too, and
workloads of `bench engine` are in README.md beside what bench/transformers_step.py wrote as transformers.jsonl.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import time

import summary

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ("qwen3-4m", "untied-5m", "arithmetic-7m", "prose-8m", "prose-12m")
# Options of each task's runs. Small tasks are for machines that are emulated; their prompts are ids, as builds for those need.
TASKS = {"choice": "--chat --max-tokens 160", "algebra": "--chat --max-tokens 160", "compose": "--chat --max-tokens 160",
         "prose": "--max-tokens 160", "arithmetic": "--chat --max-tokens 160", "long": "--chat --max-tokens 400",
         "choice-small": "--max-tokens 16", "prose-small": "--max-tokens 16"}
PROBLEMS, SMALL_PROBLEMS, SEEDS = 200, 4, 3
CONTRACTS, BASELINES = ("fma-1", "exact-1", "int16-1"), ("layercast", "bf16")
# Options of each platform's runs, and which kernels OpenBLAS is told to take there; None: there are no baselines.
PLATFORMS = {"cuda": ("--device cuda --batch 32", ""),
             "avx512": ("--isa avx512 --threads 1 --batch 32", "SkylakeX"),
             "avx2": ("--isa avx2 --threads 1 --batch 32", "Haswell"),
             "avx2-batch8": ("--isa avx2 --threads 1 --batch 8", "Sandybridge"),
             "avx512-threads2": ("--isa avx512 --threads 2 --batch 32", "SkylakeX"),
             "scalar": ("--isa scalar --threads 1 --batch 4", "Nehalem"),
             "aarch64": ("--threads 1 --batch 4", None)}
EMULATED, SLOW = ("aarch64",), ("aarch64", "scalar")  # slow ones have small tasks alone


def reprofuse(options, arguments, platform="", kernels=None):
    """Returns what the tool prints, and ends with its message where it fails."""
    command = [f"qemu-{platform}", ROOT / f"build-{platform}/bin/reprofuse"] if platform in EMULATED else [options.tool]
    variables = {"OPENBLAS_CORETYPE": kernels} if kernels else {}
    done = subprocess.run([str(word) for word in command + arguments], env={**os.environ, **variables}, text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(str(word) for word in arguments)}\n{done.stderr}")
    return done.stdout


def model_folder(model):
    """One of the repository, or one that models/train/train_study_models.py made."""
    folder = ROOT / "models" / (model if model == "arithmetic-7m" else f"study/{model}")
    return folder if folder.exists() else ROOT / "build-models/study" / model


def task_file(options, model, task):
    """That of the repository, or one of token ids that is made of its first problems."""
    if not task.endswith("-small"):
        return ROOT / f"models/study/tasks/{task}.jsonl"
    path = options.runs / f"{model}-{task}.jsonl"
    if not path.exists():
        whole = task.removesuffix("-small")
        problems = [json.loads(line) for line in task_file(options, model, whole).read_text().splitlines()[:SMALL_PROBLEMS]]
        made = path.with_suffix(f".{os.getpid()}")  # another process may make it at the same time
        made.write_text("".join(json.dumps({"id": problem["id"], "prompt": problem["prompt"]}) + "\n" for problem in problems))
        answers = reprofuse(options, ["generate", "--model", model_folder(model), "--jsonl", made, "--max-tokens", 1,
                                      *(["--chat"] if "--chat" in TASKS[whole] else [])]).splitlines()
        made.write_text("".join(json.dumps({key: json.loads(answer)[key] for key in ("id", "prompt_tokens")}) + "\n"
                                for answer in answers))
        made.rename(path)
    return path


def make_run(options, model, task, platform):
    out = options.runs / model / task / f"{options.machine}-{platform}.run"
    if out.exists() or time.time() > options.end:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")  # a run that is not whole has another name
    place, kernels = PLATFORMS[platform]
    methods = CONTRACTS if kernels is None or options.contracts else CONTRACTS + BASELINES
    start = time.time()
    reprofuse(options, ["study", "run", "--model", model_folder(model), "--task", task_file(options, model, task),
                        "--task-name", task, "--limit", options.problems, "--seeds", SEEDS, "--out", part,
                        "--numerics", ",".join(methods), *TASKS[task].split(), *place.split()], platform, kernels)
    part.rename(out)
    print(f"{model:<14} {task:<13} {out.stem:<20} {time.time() - start:7.1f} s", flush=True)


def run(options):
    for name, known in [(name, PLATFORMS) for name in options.platforms] + [(name, TASKS) for name in options.tasks]:
        if name not in known:
            raise SystemExit(f"{name} is none of {', '.join(known)}")
    options.runs.mkdir(exist_ok=True)
    options.end = time.time() + 60 * options.minutes
    cells = [(model, task, platform) for task in options.tasks for model in MODELS for platform in options.platforms
             if model.startswith("prose") == task.startswith("prose") and (task.endswith("-small") or platform not in SLOW)
             and model_folder(model).exists()]
    for model, task, _ in cells:
        task_file(options, model, task)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(make_run, options, *cell) for cell in cells]:
            done.result()


def report(options):
    # The page shows the first ones at once: those with the heaviest tails of margins.
    tasks, models = sorted(TASKS, key=lambda task: task != "prose"), sorted(MODELS, key=lambda model: model != "prose-12m")
    runs = sorted(options.runs.glob("*/*/*.run"),
                  key=lambda path: (tasks.index(path.parts[-2]), models.index(path.parts[-3]), path.name))
    others = [word for option, files in (("--bench", "bench-*"), ("--memory", "memory-*"), ("--ablation", "ablate-*"))
              for path in sorted(options.runs.glob(f"{files}.json")) for word in (option, path)]
    options.out.mkdir(parents=True, exist_ok=True)
    page = options.out / "report.html"
    reprofuse(options, ["study", "report", *runs, "--out", page, *others])
    document = re.search(r'id="document">(.*?)</script>', page.read_text(), re.DOTALL).group(1)
    measured = lambda files: [json.loads(path.read_text()) for path in sorted(options.runs.glob(f"{files}.json"))]
    theirs = options.runs / "transformers.jsonl"
    rows = [json.loads(line) for line in theirs.read_text().splitlines()] if theirs.exists() else []
    benches = [bench for bench in measured("bench-*") if "prompt" in bench]
    (options.out / "README.md").write_text(summary.write(json.loads(document)["groups"], options.commit, benches, rows,
                                                         measured("memory-*"), measured("ablate-*")))


def main():
    words = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build/bin/reprofuse")
    parser.add_argument("--runs", type=pathlib.Path, default=ROOT / "build-study", help="folder of the runs")
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("run")
    making.set_defaults(command=run)
    making.add_argument("--machine", required=True, help="what the names of its runs begin with")
    making.add_argument("--platforms", type=words, required=True, help=f"any of {','.join(PLATFORMS)}")
    making.add_argument("--tasks", type=words, default=list(TASKS), help="the first of them is made first")
    making.add_argument("--problems", type=int, default=PROBLEMS, help="of each task")
    making.add_argument("--contracts", action="store_true", help="no baselines: the machine has no OpenBLAS")
    making.add_argument("--jobs", type=int, default=1, help="runs at once")
    making.add_argument("--minutes", type=float, default=1e6, help="begin no run after that time")
    reporting = commands.add_parser("report")
    reporting.set_defaults(command=report)
    reporting.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/study")
    reporting.add_argument("--commit", required=True, help="which made the runs")
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
