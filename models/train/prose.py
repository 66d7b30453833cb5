#!/usr/bin/env python3
"""Makes the prose corpus from Debian packages of works in the public domain, and a tokenizer from it.

  prose.py DIRECTORY [--vocab 6144]    downloads with apt-get (15 MB), writes the tokenizer, train.bin.xz and heldout.json

A work is a list of paragraphs, cut into passages of some 40; one passage in 24, chosen by a hash of its text, is held out.
train.bin.xz: all other passages as little-endian 16-bit tokens, each from <|begin_of_text|> to <|end_of_text|>; the
highest bit marks the first token of a paragraph. heldout.json: a list of passages, each a list of paragraphs.
"""
import argparse
import array
import collections
import gzip
import html
import itertools
import json
import lzma
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zlib

import corpus
import tokenizer
from rng import Rng

PACKAGES = ["r-cran-janeaustenr", "sword-text-web", "bible-kjv-text", "bible-kjv", "dict-devil",
            "jargon-text"]
PASSAGE, SPLIT = 40, 24  # paragraphs in a passage; one passage in so many is held out
SHORTEST = 20  # characters: what is shorter is a heading or a number
PARAGRAPH_BIT = 0x8000
ASCII = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": "--", "–": "-", "…": "...", "æ": "ae", "Æ": "AE",
                       "œ": "oe", "\u00a0": " ", "£": "L", "·": "-", "×": "x"})


def ascii_text(text):
    """The text without accents and other marks, spaces in place of white space."""
    text = unicodedata.normalize("NFKD", text.translate(ASCII)).encode("ascii", "ignore").decode()
    return " ".join(text.split())


def paragraphs(lines):
    """Paragraphs of lines of text, with empty lines between."""
    blocks, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            blocks.append(" ".join(block))
            block = []
    return blocks


def strings_of_r(data):
    """The character vector in R's serialization (XDR): flags of a string, its length, its bytes."""
    start = data.index(b"UTF-8") + 5
    kind, count = struct.unpack_from(">II", data, start)
    if kind & 0xFF != 16:
        raise ValueError(f"R type {kind & 0xFF} is not a character vector")
    found, at = [], start + 8
    for _ in range(count):
        flags, size = struct.unpack_from(">Ii", data, at)
        if flags & 0xFF != 9:
            raise ValueError(f"R type {flags & 0xFF} is not a string")
        found.append(data[at + 8:at + 8 + max(size, 0)].decode())
        at += 8 + max(size, 0)
    return found


def austen(root):
    """Six novels, one after the other: objects of a length (of the data, unpacked) and zlib's bytes."""
    data = (root / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    novels = []
    while data:
        unpacker = zlib.decompressobj()
        novels.append(paragraphs(strings_of_r(unpacker.decompress(data[4:]))))
        data = unpacker.unused_data
    return novels


def web(root):
    """World English Bible: blocks of zlib's bytes, one a book, listed by (offset, size, size unpacked)."""
    books = []
    for name in ("ot", "nt"):
        stem = next(root.glob(f"usr/share/sword/modules/texts/ztext/*/{name}.bzs"))
        packed = stem.with_suffix(".bzz").read_bytes()
        for offset, size, _ in struct.iter_unpack("<III", stem.read_bytes()):
            text = zlib.decompress(packed[offset:offset + size]).decode() if size else ""
            text = re.sub(r"<(note|title)\b[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
            parts = re.split(r'<div [^>]*sID="[^"]*" type="x-p"/>|<chapter [^>]*sID=[^>]*>|<lg [^>]*sID=[^>]*>', text)
            books.append([html.unescape(re.sub(r"<[^>]*>", "", part)) for part in parts])
    return books


def king_james(root):
    """Verses, five to a paragraph, by the package's own program."""
    command = [root / "usr/bin/bible", "-p", root / "usr/lib", "-l0", "Genesis1:1-Revelation22:21"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    books = collections.defaultdict(list)
    for chapter in re.split(r"\n(?=\S)", text.strip()):
        title, *lines = chapter.strip().splitlines()
        verses = [match[1] for match in (re.match(r"\s*\d+ (.*)", line) for line in lines) if match]
        books[title.rsplit(" ", 1)[0]] += [" ".join(verses[i:i + 5]) for i in range(0, len(verses), 5)]
    return list(books.values())


def devil(root):
    text = gzip.decompress((root / "usr/share/dictd/devil.dict.dz").read_bytes()).decode()
    return [paragraphs(text.split("PREFACE", 1)[1].splitlines())]


def jargon(root):
    text = gzip.decompress((root / "usr/share/doc/jargon-text/jargon.txt.gz").read_bytes()).decode()
    text = text[text.index(":abbrev:"):text.rindex(":zorkmid:")]
    return [[re.sub(r"[{}]", "", block) for block in paragraphs(text.splitlines())]]


SOURCES = (austen, web, king_james, devil, jargon)


def download(directory):
    """Unpacks the packages into directory / "root"."""
    subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    for package in sorted(directory.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, directory / "root"], check=True)
        print(package.name, file=sys.stderr)
    return directory / "root"


def passages(root):
    """Lists of at most PASSAGE paragraphs each, in the order of the works."""
    for source in SOURCES:
        for work in source(root):
            kept = [text for text in map(ascii_text, work) if len(text) >= SHORTEST and " " in text]
            for start in range(0, len(kept), PASSAGE):
                yield kept[start:start + PASSAGE]


def held_out(passage):
    return zlib.crc32("\n".join(passage).encode()) % SPLIT == 0


def train_tokenizer(texts, vocab):
    counts = collections.Counter()
    for passage in texts:
        for paragraph in passage:
            counts.update(tokenizer.split_words(paragraph + "\n"))
    return tokenizer.train_merges(counts, vocab - 256 - len(tokenizer.SPECIAL))


def encode_passages(encoder, texts):
    """One array of 16-bit tokens."""
    tokens = array.array("H")
    for passage in texts:
        tokens.append(encoder.special[tokenizer.BOS])
        for paragraph in passage:
            first, *rest = encoder.encode(paragraph + "\n")
            tokens.append(first | PARAGRAPH_BIT)
            tokens.extend(rest)
        tokens.append(encoder.special[tokenizer.END])
    return tokens


def paragraph_starts(tokens):
    return [i for i, token in enumerate(tokens) if token & PARAGRAPH_BIT]


def pack_batch(tokens, starts, bos, seed, batch, rows, length):
    """As packing.pack_batch: each row begins at the start of some paragraph, after <|begin_of_text|>."""
    rng, done = Rng(corpus.conversation_seed(seed, batch)), []
    for _ in range(rows):
        start = rng.choice(starts)
        row = [bos] + [token & ~PARAGRAPH_BIT for token in tokens[start:start + length]]
        row += [bos] * (length + 1 - len(row))
        documents = list(itertools.accumulate(int(token == bos) for token in row[:length]))
        done.append((row[:length], row[1:], [int(target != bos) for target in row[1:]], documents))
    return tuple(zip(*done))


def read_tokens(path):
    tokens = array.array("H", lzma.decompress(path.read_bytes()))
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens


def little_endian(tokens):
    if sys.byteorder == "big":
        tokens = array.array("H", tokens)
        tokens.byteswap()
    return tokens.tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--vocab", type=int, default=6144)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        every = list(passages(download(pathlib.Path(work))))
    heldout = [passage for passage in every if held_out(passage)]
    training = [passage for passage in every if not held_out(passage)]
    args.directory.mkdir(parents=True, exist_ok=True)
    tokenizer.write(args.directory, train_tokenizer(training, args.vocab), tokenizer.END, chat=False)
    tokens = encode_passages(tokenizer.Encoder(args.directory / "tokenizer.json"), training)
    (args.directory / "train.bin.xz").write_bytes(lzma.compress(little_endian(tokens)))
    (args.directory / "heldout.json").write_text(json.dumps(heldout, indent=0) + "\n")
    characters = sum(len(paragraph) + 1 for passage in training for paragraph in passage)
    print(f"{len(training)} passages, {characters} characters, {len(tokens)} tokens; {len(heldout)} passages held out")


if __name__ == "__main__":
    main()
