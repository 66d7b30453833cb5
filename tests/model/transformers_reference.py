"""Logits of Hugging Face transformers in FP32 for every model case, and its greedy answers with the bundled model.

transformers_reference.py CASES MODEL OUT: CASES as write_model_cases wrote them, MODEL the folder of the bundled model.
The result is committed as data/transformers.json, and model_transformers_test compares our logits with it.
"""
import json
import pathlib
import sys

import torch
import transformers

POSITIONS = 6  # compared per case, spread over the text
STEPS = 200  # of each greedy answer


def load(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.cuda().eval()


@torch.inference_mode()
def case_logits(folder):
    tokens = json.loads((folder / "tokens.json").read_text())
    logits = load(folder)(torch.tensor([tokens], device="cuda")).logits[0].cpu()
    positions = sorted({round(i * (len(tokens) - 1) / (POSITIONS - 1)) for i in range(POSITIONS)})
    return [{"position": p, "logits": [float(f"{v:.9g}") for v in logits[p].tolist()]} for p in positions]


@torch.inference_mode()
def greedy(model, prompt):
    """The likeliest token STEPS times, past any end of text, and the smallest lead it had over the second."""
    tokens, lead = list(prompt), float("inf")
    cache = None
    new = torch.tensor([tokens], device="cuda")
    for _ in range(STEPS):
        out = model(new, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        top = out.logits[0, -1].topk(2)
        lead = min(lead, float(top.values[0] - top.values[1]))
        tokens.append(int(top.indices[0]))
        new = torch.tensor([[tokens[-1]]], device="cuda")
    return {"prompt": list(prompt), "tokens": tokens[len(prompt):], "smallest_lead": lead}


def main():
    cases, folder, out = map(pathlib.Path, sys.argv[1:])
    torch.backends.cuda.matmul.allow_tf32 = False
    result = {"transformers": transformers.__version__, "torch": torch.__version__, "cases": {}, "greedy": []}
    for case in sorted(p for p in cases.iterdir() if p.is_dir()):
        result["cases"][case.name] = case_logits(case)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = load(folder)
    with open(folder / "heldout.jsonl", encoding="utf-8") as file:
        problems = [json.loads(line) for line in file][:3]
    for problem in problems:
        messages = [{"role": "user", "content": problem["question"]}]
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        result["greedy"].append(greedy(model, tokenizer(text, add_special_tokens=False)["input_ids"]))
    out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
