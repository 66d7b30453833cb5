#!/usr/bin/env python3
"""Tokens per second of a running server through HTTP, with many requests at once.

  digests   what digests and receipts cost: the same sampled answers without and with them
  prompts   192 prompts of 64 to 1,500 tokens, greedy answers
  long      long prompts (of 32,768 tokens, or --prompt-tokens) and greedy answers, without and with a digest; --at-once of them
  scores    192 prompts (of 512 tokens, or --prompt-tokens) with the log-probability of each token, as lm-evaluation-harness asks,
            beside the same without
  sampling  sampled answers, log-probabilities and eight answers to a prompt, beside greedy ones

The tokens that count are those of answers; of scores those of prompts; of long ones both.

Rounds of each kind take turns, so that whatever else the machine does meets them alike; a ratio is the median of rounds beside each
other. No round finds prompts of an earlier one in the prefix cache. Needs nothing but Python's standard library.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import socket
import statistics
import time
import urllib.parse


def exchange(address, request):
    """The bytes of the reply. Whatever takes time in a client is left for later."""
    parts = []
    with socket.create_connection(address, timeout=600) as connection:
        connection.sendall(request)
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def ask(address, body):
    content = json.dumps(body).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n")
    return exchange(address, head.encode() + content)


def await_model(address):
    """Returns when the server answers requests: it takes connections before its model is loaded."""
    request = f"GET /health HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nConnection: close\r\n\r\n".encode()
    while not (reply := exchange(address, request)).startswith(b"HTTP/1.1 200 "):
        if b'"loading"' not in reply:
            raise RuntimeError(reply.decode())
        time.sleep(0.5)


def read(reply):
    """The usage, and the digests of the choices."""
    text = reply.decode()
    if not text.startswith("HTTP/1.1 200 "):
        raise RuntimeError(text)
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    choices = [choice for each in objects for choice in each["choices"]]
    return objects[-1]["usage"], [choice["digest"] for choice in choices if choice.get("digest")]


WORKLOADS = ["digests", "prompts", "long", "scores", "sampling"]
PROMPT_TOKENS = {"long": 32768, "scores": 512}  # where nothing else is asked; 16 of others
COUNTED = {"long": "total_tokens", "scores": "prompt_tokens"}  # what the usage calls them; completion_tokens of others
MEANING = {"total_tokens": "prompts and answers", "prompt_tokens": "prompts", "completion_tokens": "answers"}


def prompt(rng, tokens):
    return [rng.randrange(1000) for _ in range(tokens)]


def workload(name, options):
    """The bodies of each kind; the first kind is what the others are compared with."""
    rng = random.Random(1)
    answer = {"max_tokens": options.tokens, "ignore_eos": True}
    prompts = [prompt(rng, options.prompt_tokens) for _ in range(options.at_once)]
    if name == "digests":
        kinds = {"no digest": {"digest": False}} | {
            kind: {"receipt": True} if kind == "receipt" else {"digest": kind} for kind in options.kinds}
        return {kind: [{"prompt": each, "seed": seed, "temperature": 1, **answer, **fields}
                       for seed, each in enumerate(prompts)] for kind, fields in kinds.items()}
    if name == "prompts":
        return {"64 to 1,500": [{"prompt": prompt(rng, rng.randint(64, 1500)), "temperature": 0, **answer} for _ in range(192)]}
    if name == "long":
        return {kind: [{"prompt": each, "temperature": 0, **answer, "digest": digest} for each in prompts]
                for kind, digest in (("no digest", False), ("tree-1", "tree-1"))}
    if name == "scores":
        rng = random.Random(1)  # the same texts however many are asked for at once
        texts = [prompt(rng, options.prompt_tokens) for _ in range(192)]
        kinds = {"unscored": {}, "scored": {"echo": True, "logprobs": 1}}
        return {kind: [{"prompt": text, "max_tokens": 1, "temperature": 0, **fields} for text in texts]
                for kind, fields in kinds.items()}
    sampled = {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "repetition_penalty": 1.1}
    kinds = {"greedy": {"temperature": 0}, "sampled": sampled, "logprobs": {"temperature": 0, "logprobs": 5}}
    kinds = {kind: [{"prompt": each, "seed": seed, **answer, **fields} for seed, each in enumerate(prompts)]
             for kind, fields in kinds.items()}
    eight = [{"prompt": each, "seed": seed, "n": 8, "temperature": 1, **answer} for seed, each in enumerate(prompts)]
    return kinds | {"n = 8": eight[:max(options.at_once // 8, 1)]}


def round_of(options, bodies, salt):
    """The tokens per second that the workload counts, and the digests in the order of the requests."""
    stream = {"stream": True, "stream_options": {"include_usage": True}} if options.stream else {}
    bodies = [body | stream | {"cache_salt": salt} for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as clients:
        begin = time.perf_counter()
        replies = list(clients.map(lambda body: ask(options.address, body), bodies))
        seconds = time.perf_counter() - begin
    answers = [read(reply) for reply in replies]
    return sum(usage[options.counted] for usage, _ in answers) / seconds, [digests for _, digests in answers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("workload", nargs="?", default="digests", choices=WORKLOADS)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128, help="of an answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, help="of all but prompts (default: 16; long: 32,768, scores: 512)")
    parser.add_argument("--kinds", nargs="+", default=["tree-1", "chain-1"], help="of digests; receipt is one")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results to this file")
    options = parser.parse_args()
    url = urllib.parse.urlsplit(options.url)
    options.address = (url.hostname, url.port or 80)
    options.prompt_tokens = options.prompt_tokens or PROMPT_TOKENS.get(options.workload, 16)
    options.counted = COUNTED.get(options.workload, "completion_tokens")

    await_model(options.address)
    kinds = workload(options.workload, options)
    rates, digests = {kind: [] for kind in kinds}, {}
    for turn in range(options.rounds + 1):
        for kind, bodies in kinds.items():
            rate, found = round_of(options, bodies, f"{kind} {turn} {time.time_ns()}")
            if turn > 0:  # the first warms up
                rates[kind].append(rate)
            if digests.setdefault(kind, found) != found:
                raise RuntimeError(f"digests of the kind {kind} differ from one round to the next")
    lengths = "64 to 1,500" if options.workload == "prompts" else options.prompt_tokens
    answers = 1 if options.workload == "scores" else options.tokens
    print(f"{options.workload}: {options.at_once} at once, prompts of {lengths}, answers of {answers}; tokens of "
          f"{MEANING[options.counted]}")
    first, results = next(iter(kinds)), {}
    for kind, each in rates.items():
        ratio = statistics.median(rate / beside for rate, beside in zip(each, rates[first]))
        results[kind] = {"tokens_per_second": statistics.median(each), "ratio": ratio}
        print(f"{kind:12} {statistics.median(each):10.1f} tokens/s  {ratio:6.3f}")
    if options.json:
        facts = {"at_once": options.at_once, "prompt_tokens": lengths, "tokens": answers, "stream": options.stream,
                 "rounds": options.rounds, "tokens_of": MEANING[options.counted]}
        options.json.write_text(json.dumps(facts | {options.workload: results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
