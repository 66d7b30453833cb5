#!/usr/bin/env python3
"""Trains the models of the study on one GPU, side by side, and evaluates each.

  train_study_models.py OUTPUT --prose DIR [--minutes M] [--models NAME ...]

DIR is what prose.py wrote. OUTPUT gets a Hugging Face folder for each model; a model that fails does not stop the others.
Training gets the time but what evaluation needs. The exit status is 1 where a model failed.
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ARITHMETIC, TASKS = HERE.parent / "arithmetic-7m", HERE.parent / "study" / "tasks"
NAMES = ("qwen3-4m", "untied-5m", "prose-8m", "prose-12m")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
EVALUATION_MINUTES = 2.0
GRACE_SECONDS = 60  # a process that runs so much longer than it was told to is ended


def prepare(name, output, prose):
    """The model's folder, with its tokenizer."""
    directory, source = output / name, prose if name.startswith("prose") else ARITHMETIC
    directory.mkdir(parents=True, exist_ok=True)
    for file in TOKENIZER_FILES:
        if (source / file).exists():
            shutil.copy(source / file, directory / file)
    return directory


def end_in_time(process, seconds):
    """Ends the process when its time is over, and what it left running when it is done."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(name, command, seconds):
    """Runs a script of this folder, its lines after the model's name; true if it succeeded in time."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TORCHINDUCTOR_COMPILE_THREADS": "4"}
    process = subprocess.Popen([sys.executable, "-B", HERE / command[0], *map(str, command[1:])], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    threading.Thread(target=end_in_time, args=(process, seconds), daemon=True).start()
    with process.stdout as lines:
        for text in lines:
            print(f"{name}: {text.rstrip()}", flush=True)
    status = process.wait()
    print(f"{name}: {command[0]} ended with status {status}", flush=True)
    return status == 0


def make(name, args, workers, end, failed):
    try:
        directory = prepare(name, args.output, args.prose)
        minutes = args.minutes - EVALUATION_MINUTES
        command = ["train.py", directory, "--recipe", name, "--prose", args.prose, "--minutes", minutes, "--workers",
                   2 if name.startswith("prose") else workers]
        done = run(name, command, minutes * 60 + GRACE_SECONDS)
        left = end - time.monotonic() + GRACE_SECONDS
        if not done or not run(name, ["evaluate_study.py", directory, TASKS, ARITHMETIC / "heldout.jsonl"], left):
            failed.append(name)
    except Exception as error:  # whatever it is: the other models go on
        print(f"{name}: {error!r}", flush=True)
        failed.append(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--prose", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    args = parser.parse_args()
    if args.minutes <= EVALUATION_MINUTES:
        parser.error(f"--minutes must be more than {EVALUATION_MINUTES}")
    end = time.monotonic() + args.minutes * 60
    workers, failed = max(1, (os.cpu_count() - 4) // 2), []
    threads = [threading.Thread(target=make, args=(name, args, workers, end, failed)) for name in args.models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in args.models:
        sizes = {path.name: path.stat().st_size for path in sorted((args.output / name).glob("*"))}
        print(f"{name}: {'failed' if name in failed else 'done'}: {sizes}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
