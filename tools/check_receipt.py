#!/usr/bin/env python3
"""Checks a receipt without ReproFuse: the signature, the Merkle root over the steps and the digest of the kind tree-1.

usage: tools/check_receipt.py RECEIPT [PUBLIC_KEY]

Written from docs/receipts.md alone, with Python's own library and the command `openssl`. It computes no logits: that the steps
are those of the model is for `reprofuse verify` to say. Exits with 0, or with 3 for a signature or what is no receipt, 4 for an
opening of another prompt, 1 for what contradicts itself, and 2 for what cannot be read.
"""
import base64
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://reprofuse.invalid/receipt/v1"
DER_HEAD = bytes.fromhex("302a300506032b6570032100")  # of an Ed25519 key, RFC 8410
# Forms of fields: patterns of their canonical JSON. Numbers are from 0 to 2^31 - 1, see strict_json().
TEXT, HASH, WORD, COUNT, TOKEN, TRUTH = '".*"', '"[0-9a-f]{64}"', '"[0-9a-f]{8}"', '"[1-9][0-9]*"', "[0-9]+", "true|false"
TEXT_OR_NULL, HASH_OR_NULL, TOKEN_OR_NULL = (f"{form}|null" for form in (TEXT, HASH, TOKEN))
TOKENS, TEXTS, HASHES_OR_NULL = r"\[[0-9,]*\]", r'\[("([^"\\]|\\.)*",?)*\]', rf"\[({HASH},?)*\]|null"
FILES = ("chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
FORMS = {
    "engine": {"name": '"reprofuse"', "version": TEXT}, "contract": TEXT,
    "artifacts": {"model": HASH, "manifest_root": HASH, "template": HASH_OR_NULL, "settings": HASH, "unicode": TEXT,
                  "context": COUNT, "date": r'"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2})?"', "files": dict.fromkeys(FILES, HASH_OR_NULL)},
    "request": {"temperature": WORD, "top_p": WORD, "min_p": WORD, "repetition_penalty": WORD, "top_k": TOKEN,
                "seed": '"[0-9a-f]{16}"', "max_tokens": COUNT, "stop_tokens": TOKENS, "stop_strings": TEXTS,
                "keep_stop_string": TRUTH, "skip_special_tokens": TRUTH},
    "answer": {"tokens": TOKENS, "finish_reason": '"stop"|"length"', "stop_token": TOKEN_OR_NULL, "digest": f'"tree-1:{HASH[1:]}'},
    "steps": {"count": COUNT, "root": HASH, "roots": HASHES_OR_NULL}, "environment": {"device": TEXT, "isa": TEXT_OR_NULL},
    "previous": HASH_OR_NULL, "nonce": TEXT_OR_NULL, "issuer": {"key_id": HASH, "public_key": '"[A-Za-z0-9+/]{43}="'},
}


class Wrong(Exception):
    """What is wrong, and the exit status."""


def check(condition, what, status=1):
    if not condition:
        raise Wrong(what, status)


def sha256(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    """RFC 8785 for what receipts hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def strict_json(data):
    """No key twice, no fraction, no NaN, no number that is negative or has more than 31 bits."""
    def members(pairs):
        check(len(dict(pairs)) == len(pairs), "it has a key twice", 3)
        return dict(pairs)

    def number(digits):
        check(digits.isdigit() and len(digits) <= 10 and int(digits) < 2**31, f"{digits[:20]} is no number of a receipt", 3)
        return int(digits)
    return json.loads(data, object_pairs_hook=members, parse_int=number, parse_float=number, parse_constant=number)


def from_base64(data):
    decoded = base64.b64decode(data, validate=True)
    check(base64.b64encode(decoded).decode() == data, "its Base64 is not canonical", 3)
    return decoded


def check_form(value, form, name):
    if isinstance(form, str):
        check(re.fullmatch(form, canonical(value).decode(), re.DOTALL), f"its {name} is not of its form", 3)
        return
    check(isinstance(value, dict) and value.keys() == form.keys(), f"its {name} has other fields", 3)
    for key, part in form.items():
        check_form(value[key], part, key)


def words(tokens):
    return struct.pack(f"<{len(tokens)}i", *tokens)


def merkle_root(leaves):
    """RFC 6962: the left subtree has the largest power of two below the number of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + merkle_root(leaves[:left]) + merkle_root(leaves[left:]))


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
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin", "-inkey", files[0], "-in", files[1]]
        return subprocess.run([*command, "-sigfile", files[2]], capture_output=True, check=False).returncode == 0


def read_envelope(content):
    """The payload, after its signature was checked by the key that it names, and that key in DER."""
    envelope = strict_json(content)
    check(envelope.keys() == {"payload", "payloadType", "signatures"}, "it is no receipt: an envelope has other fields", 3)
    (signature,) = envelope["signatures"]
    check(signature.keys() == {"keyid", "sig"} and envelope["payloadType"] == PAYLOAD_TYPE, "it is no envelope of a receipt", 3)
    payload, sig = from_base64(envelope["payload"]), from_base64(signature["sig"])
    issuer = strict_json(payload)["predicate"]["issuer"]
    der = DER_HEAD + from_base64(issuer["public_key"])
    y = int.from_bytes(der[len(DER_HEAD):], "little") % 2**255
    check(y * (y * y - 1) * (121666 * (2 * y * y - 1) - 121665 * y**4) % (2**255 - 19) != 0, "its key is of small order", 3)
    check(signature["keyid"] == issuer["key_id"] == sha256(der).hex(), "its key has another id", 3)
    encoded = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)
    check(verifies(der, encoded, sig), "the signature is not that of the key", 3)
    return payload, der


def check_end(predicate, count):
    """The answer ends where its request says, and fits into the context."""
    answer, request = predicate["answer"], predicate["request"]
    stop, by_length, longest = answer["stop_token"], answer["finish_reason"] == "length", int(request["max_tokens"])
    check(count <= longest and (not by_length or (stop is None and count == longest)), "its end is not that of its length")
    check(by_length or stop is not None or request["stop_strings"], "nothing stops it")
    check(stop is None or stop in request["stop_tokens"], "its stop token is none of its request's")
    check(not set(answer["tokens"]) & set(request["stop_tokens"]), "a stop token is inside its answer")
    check(len(predicate["prompt"].get("tokens", ())) + longest <= int(predicate["artifacts"]["context"]), "it does not fit into its context")


def check_statement(payload):
    statement = strict_json(payload)
    check(canonical(statement) == payload, "its JSON is not canonical", 3)
    prompt = {"commitment": HASH} if "commitment" in statement["predicate"].get("prompt", ()) else {"tokens": TOKENS}
    check_form(statement, {"_type": re.escape(f'"{STATEMENT_TYPE}"'), "predicateType": re.escape(f'"{PREDICATE_TYPE}"'),
                           "subject": ".*", "predicate": {**FORMS, "prompt": prompt}}, "statement")
    predicate = statement["predicate"]
    answer, steps = predicate["answer"], predicate["steps"]
    tokens = answer["tokens"] + ([] if answer["stop_token"] is None else [answer["stop_token"]])
    subject = [{"name": "answer", "digest": {"sha256": sha256(words(answer["tokens"])).hex()}}]
    check(statement["subject"] == subject, "its subject is another answer", 3)
    check(steps["count"] == str(len(tokens)) and tokens, "it has another number of steps", 3)
    check_end(predicate, len(tokens))
    if steps["roots"] is None:
        return predicate, "the roots of its steps are not in it"
    roots = [bytes.fromhex(root) for root in steps["roots"]]
    check(len(roots) == len(tokens), "it has another number of roots")
    leaves = [sha256(b"\x00" + words(step) + root) for step, root in zip(enumerate(tokens), roots)]
    check(merkle_root(leaves).hex() == steps["root"], "the steps have another root")
    check(tree_digest(roots) == answer["digest"], "the steps have another digest")
    return predicate, f"the root and the digest of its {len(tokens)} steps are right"


def check_opening(predicate, opening):
    check_form(opening, {"salt": HASH, "prompt_tokens": TOKENS}, "opening")
    committed = sha256(b"\x03" + bytes.fromhex(opening["salt"]) + words(opening["prompt_tokens"])).hex()
    check(predicate["prompt"] == {"commitment": committed}, "the prompt is another one", 4)
    check_end({**predicate, "prompt": {"tokens": opening["prompt_tokens"]}}, int(predicate["steps"]["count"]))


def main(arguments):
    if arguments == ["--help"]:
        return print(__doc__)
    check(len(arguments) in (1, 2), __doc__, 2)
    receipt = pathlib.Path(arguments[0])
    payload, der = read_envelope(receipt.read_text("utf-8-sig"))
    if len(arguments) == 2:
        command = ["openssl", "pkey", "-pubin", "-in", arguments[1], "-outform", "DER"]
        key = subprocess.run(command, capture_output=True, check=False)
        check(key.returncode == 0, f"{arguments[1]}: no public key can be read there", 2)
        check(key.stdout == der, "another key has signed it", 3)
    predicate, about_steps = check_statement(payload)
    print(f"signed by {sha256(der).hex()}; {about_steps}")
    opening = receipt.with_name(receipt.name + ".opening")
    if opening.exists():
        check_opening(predicate, strict_json(opening.read_text("utf-8-sig")))
        print("its prompt is the one that it commits to")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Wrong as wrong:
        problem, status = wrong.args
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem, status = f"it is no receipt: {error}", 2 if isinstance(error, (OSError, UnicodeDecodeError)) else 3
    sys.exit(print(problem, file=sys.stderr) or status)
