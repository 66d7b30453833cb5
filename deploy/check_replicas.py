#!/usr/bin/env python3
"""check_replicas.py URL...: whether the servers behind one address may stand there together.

Asks each for GET /v1/models, with the key in REPROFUSE_API_KEY, if there is one. Equal fingerprints mean equal bits for equal
requests; names of the model and whether receipts are signed decide what is refused. Exit status: 0 when all agree, 1 when they
differ or one of them promises nothing (a baseline), 2 when one did not answer.
"""
import argparse
import http.client
import json
import os
import re
import sys
import urllib.request

# The parts of a fingerprint, as docs/server.md has them.
FINGERPRINT = re.compile(r"(?P<contract>.+)-(?P<model>[0-9a-f]{16})-(?P<settings>[0-9a-f]{8})-(?P<version>[^-]+)")


def facts_of(url, key, timeout):
    """What must be equal, by name."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(url.rstrip("/") + "/v1/models", headers=headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=timeout) as response:
        (model,) = json.load(response)["data"]
    found = FINGERPRINT.fullmatch(model["system_fingerprint"])
    if not found:
        raise ValueError(f"the fingerprint {model['system_fingerprint']} is not understood")
    return {"fingerprint": model["system_fingerprint"], **found.groupdict(), "name": model["id"],
            "receipts": "signed" if model["receipts"] else "none"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL", help="a replica, as http://127.0.0.1:8001")
    parser.add_argument("--timeout", type=float, default=5, metavar="SECONDS", help="for each of them (default: 5)")
    arguments = parser.parse_args()

    facts = {}
    for url in arguments.urls:
        try:
            facts[url] = facts_of(url, os.environ.get("REPROFUSE_API_KEY"), arguments.timeout)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            print(f"{url}: no answer that tells: {error}")
            continue
        print(f"{url}: {facts[url]['fingerprint']}, model {facts[url]['name']}, receipts {facts[url]['receipts']}")
    if len(facts) < len(set(arguments.urls)):
        return 2

    status = 0
    for url, these in facts.items():
        if these["contract"].startswith("unpinned-"):
            print(f"{url} runs a baseline, which promises nothing")
            status = 1
    first_url, first = next(iter(facts.items()))
    for url, these in facts.items():
        different = [name for name in first if name != "fingerprint" and these[name] != first[name]]
        if different:
            print(f"{url} differs from {first_url} in: {', '.join(different)}")
            status = 1
    if status == 0:
        print(f"{len(facts)} replicas agree")
    return status


if __name__ == "__main__":
    sys.exit(main())
