#!/usr/bin/env python3
"""Checks a receipt without ReproFuse: the signature, the Merkle root over the steps and the digest of the kind tree-1.

usage: tools/check_receipt.py RECEIPT [PUBLIC_KEY]

Written from docs/receipts.md alone, with Python's own library and the command `openssl`. It computes no logits: that the steps
are those of the model is for `reprofuse verify` to say. Exits with 0, or with 3 for a signature and 1 for what contradicts itself.
"""
import base64
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://reprofuse.invalid/receipt/v1"
DER_HEAD = bytes.fromhex("302a300506032b6570032100")  # of an Ed25519 key, RFC 8410
FIELDS = {"answer", "artifacts", "contract", "engine", "environment", "issuer", "nonce", "previous", "prompt", "request", "steps"}


class Wrong(Exception):
    """What is wrong, and the exit status."""

    def __init__(self, what, status):
        super().__init__(what)
        self.status = status


def check(condition, what, status=1):
    if not condition:
        raise Wrong(what, status)


def sha256(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    """RFC 8785 for what receipts hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def words(tokens):
    return b"".join(struct.pack("<i", token) for token in tokens)


def merkle_root(leaves):
    """RFC 6962: the left subtree has the largest power of two below the number of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + merkle_root(leaves[:left]) + merkle_root(leaves[left:]))


def step_leaf(index, token, root):
    return sha256(b"\x00" + struct.pack("<ii", index, token) + root)


def tree_digest(roots):
    digest = bytes(32)
    for root in roots:
        digest = sha256(b"\x02" + digest + root)
    return "tree-1:" + digest.hex()


def verifies(der, message, signature):
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("key", "message", "signature")]
        for file, content in zip(files, (der, message, signature)):
            file.write_bytes(content)
        key, text, sig = files
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", key, "-rawin", "-in", text, "-sigfile", sig]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def read_envelope(text):
    """The payload, after its signature was checked by the key that it names, and that key in DER."""
    try:
        envelope = json.loads(text)
        (signature,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        sig = base64.b64decode(signature["sig"], validate=True)
        check(envelope.keys() == {"payload", "payloadType", "signatures"} and signature.keys() == {"keyid", "sig"}
              and base64.b64encode(payload).decode() == envelope["payload"], "it is no envelope", 3)
        issuer = json.loads(payload)["predicate"]["issuer"]
        der = DER_HEAD + base64.b64decode(issuer["public_key"], validate=True)
    except (ValueError, KeyError, TypeError) as error:
        raise Wrong(f"it is no receipt: {error}", 3) from error
    check(envelope["payloadType"] == PAYLOAD_TYPE, "its payload is of another type", 3)
    check(signature["keyid"] == issuer["key_id"] == sha256(der).hex(), "its key has another id", 3)
    encoded = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    check(verifies(der, encoded, sig), "the signature is not that of the key", 3)
    return payload, der


def check_statement(payload):
    statement = json.loads(payload, parse_float=lambda text: check(False, f"{text} is a fraction", 3))
    check(canonical(statement) == payload, "its JSON is not canonical", 3)
    check(statement["_type"] == STATEMENT_TYPE and statement["predicateType"] == PREDICATE_TYPE, "it is another statement", 3)
    predicate = statement["predicate"]
    check(predicate.keys() == FIELDS, "it has other fields", 3)
    answer, steps = predicate["answer"], predicate["steps"]
    tokens = answer["tokens"] + ([] if answer["stop_token"] is None else [answer["stop_token"]])
    subject = [{"name": "answer", "digest": {"sha256": sha256(words(answer["tokens"])).hex()}}]
    check(statement["subject"] == subject, "its subject is another answer", 3)
    check(steps["count"] == str(len(tokens)) and tokens, "it has another number of steps", 3)
    if steps["roots"] is None:
        return predicate, "the roots of its steps are not in it"
    roots = [bytes.fromhex(root) for root in steps["roots"]]
    check(len(roots) == len(tokens), "it has another number of roots")
    leaves = [step_leaf(index, token, root) for index, (token, root) in enumerate(zip(tokens, roots))]
    check(merkle_root(leaves).hex() == steps["root"], "the steps have another root")
    check(tree_digest(roots) == answer["digest"], "the steps have another digest")
    return predicate, f"the root and the digest of its {len(tokens)} steps are right"


def check_opening(predicate, opening):
    """Of a hidden prompt."""
    committed = sha256(b"\x03" + bytes.fromhex(opening["salt"]) + words(opening["prompt_tokens"])).hex()
    check(predicate["prompt"] == {"commitment": committed}, "the prompt is another one")


def main(arguments):
    check(len(arguments) in (1, 2), __doc__, 2)
    receipt = pathlib.Path(arguments[0])
    payload, der = read_envelope(receipt.read_text())
    if len(arguments) == 2:
        command = ["openssl", "pkey", "-pubin", "-in", arguments[1], "-outform", "DER"]
        check(subprocess.run(command, capture_output=True, check=True).stdout == der, "another key has signed it", 3)
    predicate, about_steps = check_statement(payload)
    print(f"signed by {sha256(der).hex()}; {about_steps}")
    opening = receipt.with_name(receipt.name + ".opening")
    if opening.exists():
        check_opening(predicate, json.loads(opening.read_text()))
        print("its prompt is the one that it commits to")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(wrong.status)
