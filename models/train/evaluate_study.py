#!/usr/bin/env python3
"""Answers the tasks of the study with transformers, greedily in FP32: how many are right, how long, and by which margins.

  evaluate_study.py MODEL_DIR TASKS_DIR HELDOUT [--device cuda]    writes MODEL_DIR/evaluation.json

A model with a chat template answers HELDOUT, problems as corpus.py writes them, and all tasks but prose.jsonl; another
model answers that one alone. A margin is the logit of the likeliest token less that of the second.
"""
import argparse
import json
import pathlib
import re

from evaluate import read_lines

BATCH = 512


def is_right(answer, text):
    """As `reprofuse study compare` judges: the last number, or the last capital letter that stands alone."""
    if answer in ("A", "B", "C", "D"):
        found = re.findall(r"\b[A-Z]\b", text)
        return bool(found) and found[-1] == answer
    found = re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))
    return bool(found) and float(found[-1]) == float(answer.lstrip("$"))


def tasks_for(chat, directory, heldout):
    """(name, problems) of each task that such a model answers."""
    if not chat:
        return [("prose", read_lines(directory / "prose.jsonl"))]
    known = [{"prompt": problem["question"], "answer": problem["answer"]} for problem in read_lines(heldout)]
    paths = [path for path in sorted(directory.glob("*.jsonl")) if path.stem != "prose"]
    return [("heldout", known)] + [(path.stem, read_lines(path)) for path in paths]


def prompts_of(tokens, problems):
    if tokens.chat_template is None:
        return [tokens.bos_token + problem["prompt"] for problem in problems]
    return [tokens.apply_chat_template([{"role": "user", "content": problem["prompt"]}], tokenize=False,
                                       add_generation_prompt=True) for problem in problems]


def answer(model, tokens, prompts, limits):
    """(texts, margins): the margins of all steps up to the end of each answer."""
    import torch

    inputs = tokens(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    length = inputs["input_ids"].shape[1]
    with torch.inference_mode():
        output = model.generate(input_ids=inputs["input_ids"].to(model.device), do_sample=False,
                                attention_mask=inputs["attention_mask"].to(model.device),
                                max_new_tokens=limits["max_new_tokens"], return_dict_in_generate=True,
                                output_logits=True)
        top = torch.stack([step.float().topk(2).values for step in output.logits], dim=1)  # [batch, steps, 2]
        new = output.sequences[:, length:]
        ended = torch.isin(new, torch.tensor(limits["eos_token_id"], device=new.device)).long()
        counted = ended.cumsum(1) - ended == 0  # up to the first end, with it
        margins = (top[..., 0] - top[..., 1])[counted]
    return tokens.batch_decode(new, skip_special_tokens=True), margins.cpu()


def summary(problems, texts, margins):
    known = [(problem["answer"], text) for problem, text in zip(problems, texts) if "answer" in problem]
    result = {"problems": len(problems), "steps_per_answer": round(len(margins) / len(problems), 1),
              "margin_median": round(margins.median().item(), 3)}
    for limit in (0.1, 0.01, 0.001):
        result[f"margins_below_{limit}"] = round((margins < limit).float().mean().item(), 6)
    if known:
        result["right"] = sum(is_right(*pair) for pair in known)
    return result | {"examples": texts[:3]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("tasks", type=pathlib.Path)
    parser.add_argument("heldout", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()

    import torch
    import transformers

    tokens = transformers.AutoTokenizer.from_pretrained(args.model, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).to(args.device).eval()
    limits = json.loads((args.model / "generation_config.json").read_text())
    result = {}
    for name, problems in tasks_for(tokens.chat_template is not None, args.tasks, args.heldout):
        prompts = prompts_of(tokens, problems)
        texts, margins = [], []
        for start in range(0, len(prompts), BATCH):
            some_texts, some_margins = answer(model, tokens, prompts[start:start + BATCH], limits)
            texts += some_texts
            margins.append(some_margins)
        result[name] = summary(problems, texts, torch.cat(margins))
        print(json.dumps({name: result[name]}), flush=True)
        (args.model / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
