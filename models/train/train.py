#!/usr/bin/env python3
"""Trains the model on one GPU and writes config.json, generation_config.json, model.safetensors and training.json.

  train.py MODEL_DIR [--minutes M] [--steps N]

MODEL_DIR holds tokenizer.json. Problems are written and tokenized by worker processes while the GPU trains; batch n is
a function of the seed and n, whatever the number of workers. Training ends after --steps, or, with the learning rate
brought down in time, when --minutes have passed since the start; the weights are saved in either case.
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
import tokenizer
from llama import CONFIG, GENERATION_CONFIG, Llama

ROWS, LENGTH = 128, 512  # a batch: 65,536 tokens
PEAK_RATE, FINAL_RATE, WARMUP_STEPS = 3e-3, 3e-5, 300
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.1, 1.0
LOG_EVERY = 200


def make_batches(queue, tokenizer_path, seed, first, stride):
    """A worker process: batches first, first + stride, ..., each int16 [4, rows, length], without end."""
    encoder = tokenizer.Encoder(tokenizer_path)
    for batch in itertools.count(first, stride):
        queue.put(numpy.array(packing.pack_batch(encoder, seed, batch, ROWS, LENGTH), dtype=numpy.int16))


def start_workers(count, tokenizer_path, seed):
    """An iterator over batches 0, 1, 2, ... Worker n makes every count-th batch, so the order is always the same."""
    fork = multiprocessing.get_context("fork")
    queues = [fork.Queue(maxsize=8) for _ in range(count)]
    for first, queue in enumerate(queues):
        arguments = (queue, tokenizer_path, seed, first, count)
        fork.Process(target=make_batches, args=arguments, daemon=True).start()
    return (queue.get() for queue in itertools.cycle(queues))


def learning_rate(step, progress):
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return warm * (FINAL_RATE + (PEAK_RATE - FINAL_RATE) * cosine)


def make_optimizer(model):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=BETAS, fused=True)


def make_loss(model):
    def loss(batch):
        tokens, targets, weights, documents = batch.to(torch.int64).unbind()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens, documents)
        each = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
        weights = weights.flatten().float()
        return (each * weights).sum() / weights.sum()

    return torch.compile(loss)


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


def train(model, batches, schedule):
    """Returns the log: one entry every LOG_EVERY steps, the last at the end."""
    optimizer, loss_of = make_optimizer(model), make_loss(model)
    log, step, tokens, answers = [], 0, 0, 0
    while (progress := schedule.progress(step)) < 1:
        array = next(batches)
        tokens += int((array[3] > 0).sum())
        answers += int((array[2] == packing.ANSWER_WEIGHT).sum())
        batch = torch.from_numpy(array).pin_memory().to("cuda", non_blocking=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, progress)
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
            print(json.dumps(log[-1]), flush=True)
    torch.cuda.synchronize()
    seconds = time.monotonic() - schedule.first
    return log + [{"step": step, "tokens": tokens, "answer_tokens": answers, "loss": round(loss.item(), 5),
                   "seconds": round(seconds, 1), "tokens_per_second": round(tokens / seconds)}]


def save(model, directory):
    """Rounds the weights to BF16, in the model as well, and writes the checkpoint."""
    weights = {name: value.detach().to(torch.bfloat16).contiguous().cpu() for name, value in model.state_dict().items()}
    model.load_state_dict(weights)
    safetensors.torch.save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    for name, content in (("config.json", CONFIG), ("generation_config.json", GENERATION_CONFIG)):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")
    return sum(value.numel() for value in weights.values())


def main():
    started = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--steps", type=int, default=18000)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--workers", type=int, default=14)
    args = parser.parse_args()

    tokenizer_path = args.directory / "tokenizer.json"
    vocab_size = tokenizer.Encoder(tokenizer_path).vocab_size
    if vocab_size != CONFIG["vocab_size"]:
        raise ValueError(f"{tokenizer_path} has {vocab_size} tokens, the model {CONFIG['vocab_size']}")
    batches = start_workers(args.workers, tokenizer_path, args.seed)  # before the GPU is touched: they are forks
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model = Llama(CONFIG).cuda()
    log = train(model, batches, Schedule(args.steps, args.minutes * 60, started))
    parameters = save(model, args.directory)
    record = {"parameters": parameters, "seed": args.seed, "steps_planned": args.steps, "batch_tokens": ROWS * LENGTH,
              "device": torch.cuda.get_device_name(), "torch": torch.__version__,
              "minutes": round((time.monotonic() - started) / 60, 2), "final": log[-1], "log": log[:-1:5]}
    (args.directory / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({key: record[key] for key in record if key != "log"}, indent=1), flush=True)


if __name__ == "__main__":
    main()
