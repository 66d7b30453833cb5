#!/usr/bin/env python3
"""Trains a model on one GPU and writes config.json, generation_config.json, model.safetensors and training.json.

  train.py MODEL_DIR [--recipe NAME] [--prose DIR] [--minutes M] [--steps N]

MODEL_DIR holds tokenizer.json; recipes.py has the recipes; a model of prose needs what prose.py wrote into DIR. Batches
are made by worker processes while the GPU trains; batch n is a function of the seed and n, whatever the number of
workers. Training ends after --steps, or, with the learning rate brought down in time, when --minutes have passed since
the start; the weights are saved in either case. Of a model of prose, those with the lowest held-out loss are saved.
"""
import argparse
import itertools
import json
import math
import multiprocessing
import pathlib
import time

import numpy
import safetensors.torch
import torch
import torch.nn.functional as F

import packing
import prose
import tokenizer
from llama import Llama
from recipes import RECIPES

FINAL_RATE, WARMUP_STEPS = 3e-5, 300
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.1, 1.0
LOG_EVERY = 200
HELDOUT_BATCHES = 4


def prose_batches(tokens, encoder, recipe, seed):
    starts, bos = prose.paragraph_starts(tokens), encoder.special[tokenizer.BOS]
    return lambda n: prose.pack_batch(tokens, starts, bos, seed, n, recipe.rows, recipe.length)


def batch_maker(recipe, encoder, directory, seed):
    """A function from the number of a batch to the batch."""
    if recipe.draw is None:
        return prose_batches(prose.read_tokens(directory / "train.bin.xz"), encoder, recipe, seed)
    return lambda n: packing.pack_batch(encoder, seed, n, recipe.rows, recipe.length, recipe.draw)


def make_batches(queue, make, first, stride):
    """A worker process: batches first, first + stride, ..., each int16 [4, rows, length], without end."""
    for batch in itertools.count(first, stride):
        queue.put(numpy.array(make(batch), dtype=numpy.int16))


def start_workers(count, make):
    """An iterator over batches 0, 1, 2, ... Worker n makes every count-th batch, so the order is always the same."""
    fork = multiprocessing.get_context("fork")
    queues = [fork.Queue(maxsize=8) for _ in range(count)]
    for first, queue in enumerate(queues):
        fork.Process(target=make_batches, args=(queue, make, first, count), daemon=True).start()
    return (queue.get() for queue in itertools.cycle(queues))


def learning_rate(step, progress, peak):
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return warm * (FINAL_RATE + (peak - FINAL_RATE) * cosine)


def make_optimizer(model, peak):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=peak, betas=BETAS, fused=True)


def make_loss(model):
    def loss(batch):
        tokens, targets, weights, documents = batch.to(torch.int64).unbind()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens, documents)
        each = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
        weights = weights.flatten().float()
        return (each * weights).sum() / weights.sum()

    return loss


class Heldout:
    """The loss on held-out prose, and the weights that had the lowest."""

    def __init__(self, model, encoder, recipe, path):
        tokens = prose.encode_passages(encoder, json.loads(path.read_text()))
        make = prose_batches(tokens, encoder, recipe, seed=0)
        self.batches = [torch.tensor(make(n), dtype=torch.int16, device="cuda") for n in range(HELDOUT_BATCHES)]
        self.model, self.loss_of = model, make_loss(model)
        self.lowest, self.weights = math.inf, None

    def check(self):
        self.model.eval()
        with torch.no_grad():
            loss = sum(self.loss_of(batch).item() for batch in self.batches) / len(self.batches)
        self.model.train()
        if loss < self.lowest:
            self.lowest = loss
            self.weights = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        return round(loss, 5)


class Schedule:
    """How far training is: by steps, or by time where that runs out first. The clock starts after the first step,
    which compiles."""

    def __init__(self, steps, seconds, started):
        self.steps, self.end = steps, started + seconds
        self.first = None

    def progress(self, step):
        if step == 0:
            return 0.0
        now = time.monotonic()
        self.first = self.first or now
        return max(step / self.steps, (now - self.first) / max(self.end - self.first, 1e-9))


def train(model, batches, schedule, peak, heldout):
    """Returns the log: one entry every LOG_EVERY steps, the last at the end."""
    optimizer, loss_of = make_optimizer(model, peak), torch.compile(make_loss(model))
    log, step, tokens, answers = [], 0, 0, 0
    while (progress := schedule.progress(step)) < 1:
        array = next(batches)
        tokens += int((array[3] > 0).sum())
        answers += int((array[2] == packing.ANSWER_WEIGHT).sum())
        batch = torch.from_numpy(array).pin_memory().to("cuda", non_blocking=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, progress, peak)
        loss = loss_of(batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % LOG_EVERY == 0 or step == 1:
            seconds = time.monotonic() - (schedule.first or time.monotonic())
            log.append({"step": step, "tokens": tokens, "answer_tokens": answers, "loss": round(loss.item(), 5),
                        "gradient_norm": round(norm.item(), 4), "seconds": round(seconds, 1)})
            if heldout:
                log[-1]["heldout_loss"] = heldout.check()
            print(json.dumps(log[-1]), flush=True)
    torch.cuda.synchronize()
    seconds = time.monotonic() - schedule.first
    return log + [{"step": step, "tokens": tokens, "answer_tokens": answers, "loss": round(loss.item(), 5),
                   "seconds": round(seconds, 1), "tokens_per_second": round(tokens / seconds)}]


def save(model, directory, recipe):
    """Rounds the weights to BF16, in the model as well, and writes the checkpoint."""
    weights = {name: value.detach().to(torch.bfloat16).contiguous().cpu() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    safetensors.torch.save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    for name, content in (("config.json", recipe.config), ("generation_config.json", recipe.generation_config())):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")
    return sum(value.numel() for value in weights.values())


def main():
    started = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--recipe", choices=RECIPES, default="arithmetic-7m")
    parser.add_argument("--prose", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--steps", type=int, help="as the recipe says unless given")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--workers", type=int, default=14)
    args = parser.parse_args()

    recipe = RECIPES[args.recipe]
    steps = args.steps or recipe.steps
    encoder = tokenizer.Encoder(args.directory / "tokenizer.json")
    if encoder.vocab_size != recipe.config["vocab_size"]:
        raise ValueError(f"the tokenizer has {encoder.vocab_size} tokens, the model {recipe.config['vocab_size']}")
    make = batch_maker(recipe, encoder, args.prose, args.seed)
    batches = start_workers(args.workers, make)  # before the GPU is touched: they are forks
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model = Llama(recipe.config, recipe.dropout).cuda()
    heldout = Heldout(model, encoder, recipe, args.prose / "heldout.json") if recipe.draw is None else None
    log = train(model, batches, Schedule(steps, args.minutes * 60, started), recipe.peak_rate, heldout)
    if heldout:
        log[-1]["heldout_loss"] = heldout.check()
        model.load_state_dict(heldout.weights)
    parameters = save(model, args.directory, recipe)
    record = {"parameters": parameters, "seed": args.seed, "steps_planned": steps,
              "batch_tokens": recipe.rows * recipe.length, "device": torch.cuda.get_device_name(),
              "torch": torch.__version__, "minutes": round((time.monotonic() - started) / 60, 2), "final": log[-1],
              "log": log[:-1:5]}
    if heldout:
        record["heldout_loss"] = round(heldout.lowest, 5)
        record["heldout_perplexity"] = round(math.exp(heldout.lowest), 3)
    (args.directory / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({key: record[key] for key in record if key != "log"}), flush=True)


if __name__ == "__main__":
    main()
