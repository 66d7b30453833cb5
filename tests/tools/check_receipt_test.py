#!/usr/bin/env python3
"""tools/check_receipt.py, which shares nothing with ReproFuse, passes on every golden receipt and on no altered one; they are as
docs/receipt.schema.json says; and the checker stays short enough to be read.

Usage: check_receipt_test.py"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHECKER = ROOT / "tools" / "check_receipt.py"
RECEIPTS = sorted((ROOT / "golden" / "receipts").glob("*/*.json"))


def check(receipt, *more):
    return subprocess.run([sys.executable, CHECKER, receipt, *more], capture_output=True, text=True, check=False)


def statement_of(receipt):
    return json.loads(base64.b64decode(json.loads(receipt.read_text())["payload"]))


class CheckReceipt(unittest.TestCase):
    def test_passes_on_every_golden_receipt(self):
        self.assertGreaterEqual(len(RECEIPTS), 8)
        for receipt in RECEIPTS:
            done = check(receipt, receipt.parent / "key.pem")
            self.assertEqual(done.returncode, 0, f"{receipt}: {done.stderr}")
            self.assertIn("steps are right" if "greedy" in receipt.name else "not in it", done.stdout)

    def test_fails_on_altered_ones(self):
        text = RECEIPTS[0].read_text()
        envelope = json.loads(text)
        payload = base64.b64decode(envelope["payload"])
        with tempfile.TemporaryDirectory() as folder:
            altered = pathlib.Path(folder) / "altered.json"
            places = [payload.index(b'"temperature"') + 16, payload.index(b'"tokens"') + 11, payload.index(b'"nonce"') + 1]
            for place in places:
                changed = payload[:place] + bytes([payload[place] ^ 1]) + payload[place + 1:]
                altered.write_text(json.dumps({**envelope, "payload": base64.b64encode(changed).decode()}))
                self.assertEqual(check(altered).returncode, 3, place)
            for old, new in (('"sig":"', '"sig":"A'), ('"keyid":"', '"keyid":"0'), ("in-toto+json", "in-toto+jsom")):
                altered.write_text(text.replace(old, new))
                self.assertEqual(check(altered).returncode, 3, old)

    def test_sees_steps_that_contradict_each_other(self):
        sys.path.insert(0, str(CHECKER.parent))
        import check_receipt  # noqa: PLC0415
        statement = statement_of(next(receipt for receipt in RECEIPTS if "greedy" in receipt.name))
        check_receipt.check_statement(check_receipt.canonical(statement))
        steps = statement["predicate"]["steps"]
        for alter in ({"root": "0" * 64}, {"roots": ["0" * 64] + steps["roots"][1:]}, {"roots": steps["roots"][1:]}):
            altered = {**statement, "predicate": {**statement["predicate"], "steps": {**steps, **alter}}}
            with self.assertRaises(check_receipt.Wrong):
                check_receipt.check_statement(check_receipt.canonical(altered))

    def test_refuses_what_is_not_of_its_form_or_contradicts_itself(self):
        sys.path.insert(0, str(CHECKER.parent))
        import check_receipt  # noqa: PLC0415
        statement = statement_of(next(receipt for receipt in RECEIPTS if "greedy" in receipt.name))
        wrong = [(3, "artifacts", {"date": "banana"}), (3, "artifacts", {"context": "-7"}), (3, "artifacts", {"evil": "x"}),
                 (3, "artifacts", {"files": {}}), (3, "request", {"stop_tokens": [-5]}), (3, "request", {"top_k": 1.5}),
                 (3, "request", {"top_k": float("nan")}), (3, "answer", {"more": 1}), (3, "answer", {"digest": "x"}),
                 (1, "answer", {"finish_reason": "length"}), (1, "request", {"stop_tokens": []}),
                 (1, "request", {"max_tokens": "1"}), (1, "artifacts", {"context": "9"})]
        for status, section, alter in wrong:
            predicate = {**statement["predicate"], section: {**statement["predicate"][section], **alter}}
            with self.assertRaises(check_receipt.Wrong, msg=alter) as caught:
                check_receipt.check_statement(check_receipt.canonical({**statement, "predicate": predicate}))
            self.assertEqual(caught.exception.args[1], status, alter)
        for text in ('{"a":1,"a":1}', "[NaN]", "[-1]", "[2147483648]", "[1.0]"):
            with self.assertRaises(check_receipt.Wrong, msg=text):
                check_receipt.strict_json(text)
        self.assertEqual(check_receipt.strict_json('[2147483647,{"a":null}]'), [2147483647, {"a": None}])
        with self.assertRaises(check_receipt.Wrong) as caught:
            check_receipt.check_opening(statement["predicate"], {"salt": "0" * 64, "prompt_tokens": [1]})
        self.assertEqual(caught.exception.args[1], 4)
        context = int(statement["predicate"]["artifacts"]["context"])
        for length, fits in ((1, True), (context, False)):
            opening = {"salt": "0" * 64, "prompt_tokens": [1] * length}
            committed = check_receipt.sha256(b"\3" + bytes(32) + check_receipt.words(opening["prompt_tokens"])).hex()
            hidden = {**statement["predicate"], "prompt": {"commitment": committed}}
            if fits:
                check_receipt.check_opening(hidden, opening)
                continue
            with self.assertRaises(check_receipt.Wrong) as caught:
                check_receipt.check_opening(hidden, opening)
            self.assertEqual(caught.exception.args[1], 1)

    def test_says_in_one_line_what_cannot_be_read(self):
        key = RECEIPTS[0].parent / "key.pem"
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            (here / "binary").write_bytes(b"\xff\xfe\x00")
            (here / "text").write_text("no receipt")
            (here / "reply").write_text('{"choices": []}')
            (here / "bom").write_bytes(b"\xef\xbb\xbf" + RECEIPTS[0].read_bytes())
            cases = [(2, here / "missing"), (2, here), (2, here / "binary"), (3, here / "text"), (3, here / "reply"),
                     (2, RECEIPTS[0], here / "missing.pem"), (2, RECEIPTS[0], here / "text"), (0, here / "bom", key)]
            for status, *arguments in cases:
                done = check(*arguments)
                self.assertEqual(done.returncode, status, f"{arguments}: {done.stderr}")
                self.assertEqual(len(done.stderr.splitlines()), 0 if status == 0 else 1, done.stderr)
        self.assertEqual(check("--help").returncode, 0)

    def test_refuses_keys_of_small_order(self):
        sys.path.insert(0, str(CHECKER.parent))
        import check_receipt  # noqa: PLC0415
        source = (ROOT / "src" / "receipt" / "envelope.cpp").read_text()
        points = [bytes.fromhex(point) for point in re.findall(r'"([0-9a-f]{64})"', source)]
        self.assertEqual(len(points), 7)
        statement = statement_of(RECEIPTS[0])
        honest = base64.b64decode(statement["predicate"]["issuer"]["public_key"])
        for key in [*points, *(point[:31] + bytes([point[31] | 128]) for point in points), honest]:
            statement["predicate"]["issuer"]["public_key"] = base64.b64encode(key).decode()
            payload = base64.b64encode(check_receipt.canonical(statement)).decode()
            envelope = {**json.loads(RECEIPTS[0].read_text()), "payload": payload}
            envelope["signatures"][0]["keyid"] = "another"
            with self.assertRaises(check_receipt.Wrong) as caught:
                check_receipt.read_envelope(json.dumps(envelope))
            self.assertEqual("small order" in caught.exception.args[0], key != honest, key.hex())

    def test_stays_short(self):
        self.assertLess(len(CHECKER.read_text().splitlines()), 200)

    @unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
    def test_receipts_are_as_the_schema_says(self):
        schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "receipt.schema.json").read_text()))
        schema.check_schema(schema.schema)
        for receipt in RECEIPTS:
            schema.validate(statement_of(receipt))
        statement = statement_of(RECEIPTS[0])
        for section, field in (("request", "seed"), ("answer", "digest"), ("steps", "root"), ("issuer", "public_key")):
            altered = json.loads(json.dumps(statement))
            altered["predicate"][section][field] = "x"
            self.assertFalse(schema.is_valid(altered), field)
            del altered["predicate"][section][field]
            self.assertFalse(schema.is_valid(altered), field)


if __name__ == "__main__":
    unittest.main()
