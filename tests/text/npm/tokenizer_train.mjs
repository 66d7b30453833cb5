// Trains the small byte-level BPE vocabularies of the tests and writes them in the styles of the checkpoints that are
// supported. The text is made up here, so the files owe nothing to any published vocabulary.
//
// Usage: node tokenizer_train.mjs [--check] DIRECTORY     (--check compares with what is there, and writes nothing)
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { made_up_words, meeting_characters, random_numbers, sentences } from "./tokenizer_text.mjs";

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const WORDS_AND_SPACES = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const LLAMA3_PATTERN = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}${WORDS_AND_SPACES}`;
const QWEN_PATTERN = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${WORDS_AND_SPACES}`;
const GPT2_PATTERN = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Each byte as one printable character, as every byte-level vocabulary spells them.
const alphabet = (() => {
  const itself = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(itself(b) ? b : next++));
})();
const spell = (text) => Array.from(new TextEncoder().encode(text), (b) => alphabet[b]).join("");

function training_text() {
  const random = random_numbers(6);
  return [...sentences, ...sentences, made_up_words(random, 6000).join(" ")].join("\n");
}

// JavaScript knows (?i:...) only from version 23 of Node.js on; these few are spelled out.
const for_javascript = (pattern) => new RegExp(pattern.replace(CONTRACTIONS, "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL]{2})"), "gu");

// The most frequent pair first; among equals the one that sorts first.
function most_frequent_pair(words) {
  const counts = new Map();
  for (const { symbols, count } of words) {
    for (let i = 0; i + 1 < symbols.length; ++i) {
      const pair = symbols[i] + " " + symbols[i + 1];
      counts.set(pair, (counts.get(pair) ?? 0) + count);
    }
  }
  let best = null;
  for (const [pair, count] of counts) {
    if (best === null || count > best.count || (count === best.count && pair < best.pair)) best = { pair, count };
  }
  return best.pair.split(" ");
}

function apply(words, [left, right]) {
  for (const { symbols } of words) {
    for (let i = 0; i + 1 < symbols.length; ++i) {
      if (symbols[i] === left && symbols[i + 1] === right) symbols.splice(i, 2, left + right);
    }
  }
}

function learn(words, count, merges) {
  for (let i = 0; i < count; ++i) {
    merges.push(most_frequent_pair(words));
    apply(words, merges.at(-1));
  }
}

const as_words = (counts) => Array.from(counts, ([word, count]) => ({ symbols: Array.from(spell(word)), count }));

// Three in ten merges are learned from strings that are not cut first. Such a merge joins what the pattern separates,
// so that a cut in the wrong place changes the ids.
function train(pattern, merge_count) {
  const counts = new Map();
  for (const [word] of training_text().matchAll(for_javascript(pattern))) counts.set(word, (counts.get(word) ?? 0) + 1);
  const merges = [];
  learn(as_words(counts), merge_count * 0.7, merges);
  const random = random_numbers(7);
  const uncut = as_words(Array.from({ length: 3000 }, () => [meeting_characters(random), 1]));
  for (const merge of merges) apply(uncut, merge);
  learn(uncut, merge_count * 0.3, merges);
  return merges;
}

// Bytes first, then what the merges make, then words that no merge makes: those only ignore_merges reaches.
function vocabulary(merges, unreachable = []) {
  const vocab = {};
  for (const token of [...alphabet, ...merges.map((pair) => pair.join("")), ...unreachable.map(spell)]) {
    if (!(token in vocab)) vocab[token] = Object.keys(vocab).length;
  }
  return vocab;
}

function added(vocab, list) {
  let next = Object.keys(vocab).length;
  return list.map(([content, settings]) => ({
    id: vocab[content] ?? next++, content, single_word: false, lstrip: false, rstrip: false, normalized: false,
    special: true, ...settings,
  }));
}

const byte_level = (settings) => ({ type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true, ...settings });
const split_then_bytes = (pattern) => ({
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
    byte_level({ trim_offsets: false, use_regex: false }),
  ],
});
const template = (token, id) => ({
  type: "TemplateProcessing",
  single: [{ SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
  pair: [
    { SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } },
    { SpecialToken: { id: token, type_id: 1 } }, { Sequence: { id: "B", type_id: 1 } },
  ],
  special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
});
const model = (vocab, merges, settings) => ({
  type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
  fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges, ...settings,
});
const document = (parts) => ({ version: "1.0", truncation: null, padding: null, ...parts });
const as_strings = (merges) => merges.map((pair) => pair.join(" "));

function llama3(merges) {
  const vocab = vocabulary(merges, [" reproducible", " extraordinary", "zzzz", " Überraschung", "数学问题", "...", "  \n"]);
  const added_tokens = added(vocab, [
    ["<|begin_of_text|>"], ["<|end_of_text|>"], ["<|start_header_id|>"], ["<|end_header_id|>"], ["<|eot_id|>"],
    ["<|reserved_special_token_0|>"], ["<|reserved_special_token_10|>"],
  ]);
  const [bos] = added_tokens;
  return document({
    added_tokens, normalizer: null, pre_tokenizer: split_then_bytes(LLAMA3_PATTERN),
    post_processor: { type: "Sequence", processors: [byte_level({ trim_offsets: false }), template(bos.content, bos.id)] },
    decoder: byte_level(), model: model(vocab, as_strings(merges), { ignore_merges: true }),
  });
}

function deepseek(merges) {
  const vocab = vocabulary(merges, [" reproducible", " extraordinary"]);
  const plain = { special: false };
  const added_tokens = added(vocab, [
    ["<｜begin▁of▁sentence｜>"], ["<｜end▁of▁sentence｜>"], ["<｜User｜>", { ...plain, normalized: true }],
    ["<｜Assistant｜>", { ...plain, normalized: true }], ["<|EOT|>", { ...plain, normalized: true }],
    ["<think>", plain], ["</think>", plain], ["<｜▁pad▁｜>"],
  ]);
  const [bos] = added_tokens;
  return document({
    added_tokens, normalizer: { type: "Sequence", normalizers: [] }, pre_tokenizer: split_then_bytes(LLAMA3_PATTERN),
    post_processor: template(bos.content, bos.id), decoder: byte_level(),
    model: model(vocab, merges, { ignore_merges: true }),
  });
}

function qwen(merges) {
  const vocab = vocabulary(merges);
  const plain = { special: false };
  return document({
    added_tokens: added(vocab, [
      ["<|endoftext|>"], ["<|im_start|>"], ["<|im_end|>"], ["<tool_call>", plain], ["</tool_call>", plain],
      ["<think>", plain], ["</think>", plain], ["café", { ...plain, normalized: true }],
    ]),
    normalizer: { type: "NFC" }, pre_tokenizer: split_then_bytes(QWEN_PATTERN),
    post_processor: byte_level({ trim_offsets: false, use_regex: false }),
    decoder: byte_level({ trim_offsets: false, use_regex: false }),
    model: model(vocab, merges, { continuing_subword_prefix: "", end_of_word_suffix: "" }),
  });
}

function gpt2(merges) {
  const vocab = vocabulary(merges, ["<|endoftext|>"]);
  return document({
    added_tokens: added(vocab, [["<|endoftext|>"], ["<mask>", { lstrip: true }], ["<sep>", { rstrip: true }]]),
    normalizer: null, pre_tokenizer: byte_level({ add_prefix_space: true }), post_processor: byte_level(),
    decoder: { type: "Sequence", decoders: [byte_level()] }, model: model(vocab, as_strings(merges)),
  });
}

export function tokenizers() {
  const of_llama3 = train(LLAMA3_PATTERN, 2000);
  return {
    llama3: llama3(of_llama3), qwen: qwen(train(QWEN_PATTERN, 2000)), deepseek: deepseek(of_llama3),
    gpt2: gpt2(train(GPT2_PATTERN, 1000)),
  };
}

// One line for each part, so that a change shows where it is.
export function file_text(tokenizer) {
  return `{\n${Object.entries(tokenizer).map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(",\n")}\n}\n`;
}

if (fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const check = process.argv[2] === "--check";
  const directory = process.argv[check ? 3 : 2];
  for (const [style, tokenizer] of Object.entries(tokenizers())) {
    const file = path.join(directory, `tokenizer_${style}.json`);
    if (!check) {
      fs.writeFileSync(file, file_text(tokenizer));
    } else if (fs.readFileSync(file, "utf8") !== file_text(tokenizer)) {
      console.error(`${file} is not what tokenizer_train.mjs makes`);
      process.exitCode = 1;
    }
  }
}
