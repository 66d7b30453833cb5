// Writes what @huggingface/tokenizers, the tokenizers of transformers.js, makes of the corpus: the ids of each string under
// each test vocabulary, and the text of random ids. The vocabularies are those that tokenizer_train.mjs wrote to the same
// directory.
//
// Usage: node tokenizer_expected.mjs [--check] DIRECTORY     (--check compares with what is there, and writes nothing)
import fs from "node:fs";
import path from "node:path";
import { corpus } from "./tokenizer_corpus.mjs";
import { random_numbers } from "./tokenizer_text.mjs";

const STYLES = ["llama3", "qwen", "deepseek", "gpt2"];
const VERSION = "0.2.0";
const SKIPPED = 77;

async function load_tokenizers() {
  try {
    return await import("@huggingface/tokenizers");
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    console.log("skipped: @huggingface/tokenizers is not installed (npm ci --ignore-scripts in tests/text/npm)");
    process.exit(SKIPPED);
  }
}

// Where transformers.js departs from the Rust library, which made the ids that models were trained on.
const excluded = [
  {
    styles: ["llama3", "qwen", "deepseek"],
    applies: (text) => /'\u017f/u.test(text),
    reason: "(?i:'s) matches an apostrophe and U+017F, which folds to s; transformers.js folds ASCII alone",
  },
  {
    styles: ["gpt2"],
    applies: (text) => /[\u0085\ufeff]/u.test(text),
    reason: "\\s is White_Space, with U+0085 and without U+FEFF; transformers.js takes JavaScript's \\s for GPT-2's pattern",
  },
];

const is_excluded = (style, text) => excluded.some(({ styles, applies }) => styles.includes(style) && applies(text));

function decode_cases(tokenizer, vocab_size, seed) {
  const random = random_numbers(seed);
  return Array.from({ length: 60 }, () => {
    // Half of the ids are single bytes, so that characters are cut and broken.
    const ids = Array.from({ length: 1 + random(12) }, () => random(random(2) === 0 ? 256 : vocab_size));
    const text = (skip_special_tokens) => tokenizer.decode(ids, { skip_special_tokens, clean_up_tokenization_spaces: false });
    return { ids, text: text(false), without_special: text(true) };
  });
}

async function expected(directory) {
  const { Tokenizer } = await load_tokenizers();
  const styles = STYLES;
  const read = (style) => JSON.parse(fs.readFileSync(path.join(directory, `tokenizer_${style}.json`), "utf8"));
  const documents = Object.fromEntries(styles.map((style) => [style, read(style)]));
  const made = styles.map((style) => new Tokenizer(documents[style], { clean_up_tokenization_spaces: false }));
  const ids = (tokenizer, text, add_special_tokens) => tokenizer.encode(text, { add_special_tokens }).ids;
  const strings = corpus().map((text) => [
    text, ...styles.map((style, i) => (is_excluded(style, text) ? null : ids(made[i], text, false))),
  ]);
  const with_special = ["", "Hello world", "<|eot_id|>x"].map((text) => [text, ...made.map((t) => ids(t, text, true))]);
  const sizes = styles.map((style) => 1 + Math.max(...Object.values(documents[style].model.vocab), ...documents[style].added_tokens.map((t) => t.id)));
  const decoded = Object.fromEntries(styles.map((style, i) => [style, decode_cases(made[i], sizes[i], 100 + i)]));
  return { styles, strings, with_special, decoded };
}

// One line for each string.
function file_text({ styles, strings, with_special, decoded }) {
  const lines = (list) => `[\n${list.map((entry) => JSON.stringify(entry)).join(",\n")}\n]`;
  const reasons = excluded.map(({ styles: s, reason }) => `${s.join(", ")}: ${reason}`);
  return `{"made_with": "@huggingface/tokenizers ${VERSION}",
"styles": ${JSON.stringify(styles)},
"null_because": ${lines(reasons)},
"strings": ${lines(strings)},
"with_special_tokens": ${lines(with_special)},
"decoded": {${styles.map((style) => `\n${JSON.stringify(style)}: ${lines(decoded[style])}`).join(",")}}}
`;
}

const check = process.argv[2] === "--check";
const directory = process.argv[check ? 3 : 2];
const file = path.join(directory, "tokenizer_expected.json");
const text = file_text(await expected(directory));
if (!check) {
  fs.writeFileSync(file, text);
} else if (fs.readFileSync(file, "utf8") !== text) {
  console.error(`${file} is not what @huggingface/tokenizers ${VERSION} makes of the corpus`);
  process.exitCode = 1;
}
