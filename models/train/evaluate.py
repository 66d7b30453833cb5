#!/usr/bin/env python3
"""Accuracy on a set of problems, by number of steps.

  evaluate.py generate MODEL_DIR PROBLEMS OUTPUTS [--device cuda]    answers with transformers, FP32, greedily
  evaluate.py score PROBLEMS OUTPUTS [--json FILE]                   scores answers from any engine

PROBLEMS is heldout.jsonl or a file like it. OUTPUTS has one JSON object a line, in the order of the problems, with the
generated text under "text".
"""
import argparse
import collections
import decimal
import json
import pathlib
import re

MAX_NEW_TOKENS = 400


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def number(text):
    return decimal.Decimal(text.replace("$", "").replace(",", ""))


def final_answer(text):
    """The number on the last line that begins with 'Answer:'; None where there is none."""
    found = re.findall(r"^Answer: \$?(\d[\d,]*(?:\.\d+)?)\s*$", text, re.MULTILINE)
    return number(found[-1]) if found else None


def is_correct(problem, text):
    return final_answer(text) == number(problem["answer"])


def score(problems, texts):
    """{"1": {"correct": n, "problems": n, "accuracy": x}, ..., "2 and 3": ..., "all": ...}"""
    if len(problems) != len(texts):
        raise ValueError(f"{len(texts)} texts for {len(problems)} problems")
    correct, total = collections.Counter(), collections.Counter()
    for problem, text in zip(problems, texts):
        rows = [str(problem["steps"]), "all"] + (["2 and 3"] if problem["steps"] in (2, 3) else [])
        total.update(rows)
        correct.update(rows if is_correct(problem, text) else [])
    return {row: {"correct": correct[row], "problems": total[row], "accuracy": round(correct[row] / total[row], 4)}
            for row in sorted(total)}


def print_table(result):
    print(f"{'steps':>8} {'problems':>9} {'correct':>8} {'accuracy':>9}")
    for row, cell in result.items():
        print(f"{row:>8} {cell['problems']:>9} {cell['correct']:>8} {cell['accuracy']:>9.1%}")


def generate(directory, questions, device, batch=1024):
    """Greedy answers in FP32 from the 16-bit weights."""
    import torch
    import transformers

    tokens = transformers.AutoTokenizer.from_pretrained(directory, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).to(device).eval()
    prompts = [tokens.apply_chat_template([{"role": "user", "content": question}], tokenize=False,
                                          add_generation_prompt=True) for question in questions]
    texts = []
    for start in range(0, len(prompts), batch):
        inputs = tokens(prompts[start:start + batch], return_tensors="pt", padding=True, add_special_tokens=False)
        length = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            outputs = model.generate(input_ids=inputs["input_ids"].to(device), do_sample=False,
                                     attention_mask=inputs["attention_mask"].to(device), max_new_tokens=MAX_NEW_TOKENS)
        texts += tokens.batch_decode(outputs[:, length:], skip_special_tokens=True)
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("generate")
    make.add_argument("directory", type=pathlib.Path)
    make.add_argument("problems", type=pathlib.Path)
    make.add_argument("outputs", type=pathlib.Path)
    make.add_argument("--device", default="cuda")
    judge = commands.add_parser("score")
    judge.add_argument("problems", type=pathlib.Path)
    judge.add_argument("outputs", type=pathlib.Path)
    judge.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    if args.command == "generate":
        questions = [problem["question"] for problem in read_lines(args.problems)]
        texts = generate(args.directory, questions, args.device)
        args.outputs.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return
    result = score(read_lines(args.problems), [line["text"] for line in read_lines(args.outputs)])
    print_table(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
