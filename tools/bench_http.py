#!/usr/bin/env python3
"""What digests and receipts cost through HTTP: answer tokens per second of a running server, with many requests at once.

Rounds without a digest and with each kind take turns, so that whatever else the machine does meets them alike; the ratio is the
median of rounds beside each other. Needs nothing but Python's standard library.

Usage: bench_http.py URL [--at-once 64] [--tokens 128] [--rounds 5] [--prompt-tokens 16] [--kinds tree-1 chain-1 receipt] [--stream]
                         [--json FILE]
"""
import argparse
import concurrent.futures
import json
import pathlib
import socket
import statistics
import time
import urllib.parse


def ask(address, body):
    """The bytes of the reply. Whatever takes time in a client is left for later."""
    content = json.dumps(body).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n")
    parts = []
    with socket.create_connection(address, timeout=600) as connection:
        connection.sendall(head.encode() + content)
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def read(reply):
    """The number of answer tokens, and the digest."""
    text = reply.decode()
    if not text.startswith("HTTP/1.1 200 "):
        raise RuntimeError(text)
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    objects = [json.loads(line) for line in lines if line.startswith("{")]
    digests = [each["choices"][0].get("digest") for each in objects if each["choices"]]
    return objects[-1]["usage"]["completion_tokens"], digests[-1]


def round_of(address, bodies):
    """Tokens per second, and the digests in the order of the requests."""
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as clients:
        begin = time.perf_counter()
        replies = list(clients.map(lambda body: ask(address, body), bodies))
        seconds = time.perf_counter() - begin
    answers = [read(reply) for reply in replies]
    return sum(tokens for tokens, _ in answers) / seconds, [digest for _, digest in answers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url")
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--kinds", nargs="+", default=["tree-1", "chain-1"])
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    url = urllib.parse.urlsplit(arguments.url)
    address = (url.hostname, url.port or 80)

    def bodies(kind):
        options = {"max_tokens": arguments.tokens, "ignore_eos": True, "temperature": 1}
        options |= {"receipt": True} if kind == "receipt" else {"digest": kind or False}
        if arguments.stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        return [{"prompt": [(7 * i + 11 * j) % 1000 for j in range(arguments.prompt_tokens)], "seed": i, **options}
                for i in range(arguments.at_once)]

    kinds = [None, *arguments.kinds]
    rates, digests = {kind: [] for kind in kinds}, {}
    for kind in kinds:
        round_of(address, bodies(kind))  # warm
    for _ in range(arguments.rounds):
        for kind in kinds:
            rate, found = round_of(address, bodies(kind))
            rates[kind].append(rate)
            if digests.setdefault(kind, found) != found:
                raise RuntimeError(f"digests of the kind {kind} differ from one round to the next")
    print(f"{arguments.at_once} at once, {arguments.tokens} tokens each")
    results = {}
    for kind in kinds:
        ratio = statistics.median(rate / without for rate, without in zip(rates[kind], rates[None]))
        results[kind or "none"] = {"tokens_per_second": statistics.median(rates[kind]), "ratio": ratio}
        print(f"{kind or 'no digest':10} {statistics.median(rates[kind]):10.1f} tokens/s  {ratio:6.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"at_once": arguments.at_once, "tokens": arguments.tokens,
                                              "stream": arguments.stream, "digests": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
