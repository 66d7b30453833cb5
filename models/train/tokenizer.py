#!/usr/bin/env python3
"""Trains the tokenizer: byte-level BPE in which every digit is a token of its own.

  tokenizer.py DIRECTORY [--vocab 1024] [--conversations 60000] [--seed 1]    writes tokenizer.json and its companions
"""
import argparse
import collections
import json
import pathlib
import re

import corpus
from rng import Rng

# One digit at a time, as in Qwen's tokenizers; otherwise Llama 3's pattern.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
# The same for ASCII text, which is all that the corpus has, in the syntax that Python's re knows.
ASCII_PATTERN = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*"
                           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BOS, END, START_HEADER, END_HEADER, EOT = SPECIAL = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                                     "<|end_header_id|>", "<|eot_id|>")
CHAT_TEMPLATE = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""


def byte_symbols():
    """The printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


BYTE_SYMBOLS = byte_symbols()


def split_words(text):
    return ASCII_PATTERN.findall(text)


def count_words(seed, conversations):
    counts = collections.Counter()
    for index in range(conversations):
        for role, text in corpus.training_conversation(Rng(corpus.conversation_seed(seed, index))):
            counts.update(split_words(role))
            counts.update(split_words("\n\n" + text))
    return counts


def merge_word(symbols, pair, joined):
    merged, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            merged.append(joined)
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def train_merges(word_counts, count):
    """The most frequent pair first, ties by the order of the text; counts are kept up to date word by word."""
    words = [([BYTE_SYMBOLS[byte] for byte in word.encode()], n) for word, n in sorted(word_counts.items())]
    pair_counts, where = collections.Counter(), collections.defaultdict(set)
    for index, (symbols, n) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pair_counts[pair] += n
            where[pair].add(index)
    merges = []
    while len(merges) < count:
        pair = min(pair_counts, key=lambda p: (-pair_counts[p], p))
        merges.append(pair)
        for index in where.pop(pair):
            symbols, n = words[index]
            merged = merge_word(symbols, pair, "".join(pair))
            for old in zip(symbols, symbols[1:]):
                pair_counts[old] -= n
            for new in zip(merged, merged[1:]):
                pair_counts[new] += n
                where[new].add(index)
            words[index] = (merged, n)
        del pair_counts[pair]
    return merges


def tokenizer_json(merges):
    vocab = {symbol: i for i, symbol in enumerate(BYTE_SYMBOLS[byte] for byte in sorted(BYTE_SYMBOLS))}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    special = [{"id": len(vocab) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i, text in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    bos = {"SpecialToken": {"id": BOS, "type_id": 0}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}, byte_level]},
        "post_processor": {"type": "TemplateProcessing", "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [bos, {"Sequence": {"id": "A", "type_id": 0}},
                                    {"SpecialToken": {"id": BOS, "type_id": 1}},
                                    {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {BOS: {"id": BOS, "ids": [len(vocab)], "tokens": [BOS]}}},
        "decoder": byte_level | {"add_prefix_space": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [list(pair) for pair in merges]},
    }


def tokenizer_config(tokenizer, eos):
    return {"added_tokens_decoder": {str(token["id"]): {key: token[key] for key in token if key != "id"}
                                     for token in tokenizer["added_tokens"]},
            "bos_token": BOS, "eos_token": eos, "pad_token": END, "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 1024,
            "tokenizer_class": "PreTrainedTokenizerFast"}


def write(directory, merges, eos=EOT, chat=True):
    """tokenizer.json and its companions."""
    tokenizer = tokenizer_json(merges)
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", tokenizer_config(tokenizer, eos))):
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (directory / name).write_text(text, encoding="utf-8")
    if chat:
        (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


class Encoder:
    """Encodes ASCII text and conversations by tokenizer.json. A word's tokens are remembered: words come again."""

    def __init__(self, path):
        tokenizer = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.vocab = tokenizer["model"]["vocab"]
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(tokenizer["model"]["merges"])}
        self.special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
        self.vocab_size = len(self.vocab) + len(self.special)
        self.known = {}

    def encode_word(self, word):
        symbols = [BYTE_SYMBOLS[byte] for byte in word.encode()]
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            symbols = merge_word(symbols, best, "".join(best))
        return [self.vocab[symbol] for symbol in symbols]

    def encode(self, text):
        if not text.isascii():
            raise ValueError(f"this encoder is for ASCII text, not {text!r}")
        ids = []
        for word in split_words(text):
            if word not in self.known:
                self.known[word] = self.encode_word(word)
            ids += self.known[word]
        return ids

    def encode_message(self, role, text):
        """(header, body): the chat template's tokens for one message."""
        header = [self.special[START_HEADER], *self.encode(role), self.special[END_HEADER]]
        body = self.encode("\n\n" + text)
        return header, body + [self.special[EOT]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--conversations", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    merges = train_merges(count_words(args.seed, args.conversations), args.vocab - 256 - len(SPECIAL))
    write(args.directory, merges)


if __name__ == "__main__":
    main()
