// The strings on which the tokenizer is compared with @huggingface/tokenizers: the same ones on every machine.
import { made_up_words, meeting_characters, pick, random_numbers, sentences } from "./tokenizer_text.mjs";

// Ranges of all planes, of characters that Unicode 14 knew (PCRE2 10.42 knows no later one) or that none knows.
const ranges = [
  [0x00, 0x1f], [0x20, 0x7e], [0x7f, 0x9f], [0xa0, 0xff], [0x100, 0x17f], [0x180, 0x24f], [0x250, 0x2af], [0x2b0, 0x2ff],
  [0x300, 0x36f], [0x370, 0x373], [0x391, 0x3c9], [0x400, 0x4ff], [0x531, 0x556], [0x5d0, 0x5ea], [0x591, 0x5bd],
  [0x620, 0x64a], [0x64b, 0x65f], [0x660, 0x669], [0x6f0, 0x6f9], [0x710, 0x72f], [0x904, 0x939], [0x93e, 0x94d],
  [0x966, 0x96f], [0x985, 0x98c], [0xa05, 0xa0a], [0xb85, 0xb8a], [0xc05, 0xc0c], [0xc85, 0xc8c], [0xd05, 0xd0c],
  [0xe01, 0xe3a], [0xe47, 0xe4e], [0xe81, 0xe82], [0xf40, 0xf47], [0xf20, 0xf33], [0x1000, 0x102a], [0x10d0, 0x10fa],
  [0x1100, 0x1112], [0x1161, 0x1175], [0x11a8, 0x11c2], [0x1200, 0x1248], [0x13a0, 0x13f5], [0x1401, 0x166c],
  [0x16a0, 0x16ea], [0x1780, 0x17b3], [0x17e0, 0x17e9], [0x1820, 0x1842], [0x180b, 0x180e], [0x1e00, 0x1eff],
  [0x1f00, 0x1f15], [0x2000, 0x200f], [0x2010, 0x2027], [0x2028, 0x202f], [0x2030, 0x205e], [0x205f, 0x206f],
  [0x2070, 0x2071], [0x2080, 0x208e], [0x20a0, 0x20bf], [0x20d0, 0x20f0], [0x2100, 0x214f], [0x2150, 0x218b],
  [0x2190, 0x21ff], [0x2200, 0x22ff], [0x2460, 0x249b], [0x2500, 0x257f], [0x2600, 0x26ff], [0x2700, 0x27bf],
  [0x2800, 0x28ff], [0x2c00, 0x2c5f], [0x2d30, 0x2d67], [0x3000, 0x303f], [0x3041, 0x3096], [0x3099, 0x309f],
  [0x30a0, 0x30ff], [0x3105, 0x312f], [0x3131, 0x318e], [0x3220, 0x3247], [0x3400, 0x4dbf], [0x4e00, 0x9fff],
  [0xa000, 0xa48c], [0xa4d0, 0xa4ff], [0xa620, 0xa62b], [0xac00, 0xd7a3], [0xe000, 0xf8ff], [0xf900, 0xfa6d],
  [0xfb00, 0xfb06], [0xfb50, 0xfbb1], [0xfe00, 0xfe0f], [0xfe20, 0xfe2f], [0xfe30, 0xfe44], [0xff01, 0xff5e],
  [0xff65, 0xffbe], [0xfff9, 0xffff], [0x10000, 0x1000b], [0x10107, 0x10133], [0x10140, 0x10178], [0x10280, 0x1029c],
  [0x10330, 0x1034a], [0x103a0, 0x103c3], [0x10400, 0x1044f], [0x10900, 0x10915], [0x10a00, 0x10a00], [0x10c80, 0x10cb2],
  [0x11003, 0x11037], [0x11066, 0x1106f], [0x12000, 0x12399], [0x12400, 0x1246e], [0x13000, 0x1342e], [0x16a40, 0x16a5e],
  [0x17000, 0x187f7], [0x1b000, 0x1b11e], [0x1d000, 0x1d0f5], [0x1d15e, 0x1d164], [0x1d400, 0x1d454], [0x1d7ce, 0x1d7ff],
  [0x1e000, 0x1e006], [0x1e900, 0x1e943], [0x1f000, 0x1f02b], [0x1f100, 0x1f10c], [0x1f1e6, 0x1f1ff], [0x1f300, 0x1f5ff],
  [0x1f600, 0x1f64f], [0x1f680, 0x1f6d7], [0x1f900, 0x1f9ff], [0x1fbf0, 0x1fbf9], [0x1fffe, 0x1ffff], [0x20000, 0x2a6df],
  [0x2a700, 0x2b738], [0x2f800, 0x2fa1d], [0x30000, 0x3134a], [0x3fffe, 0x3ffff], [0x40000, 0x4ffff], [0x50000, 0x5ffff],
  [0x60000, 0x6ffff], [0x70000, 0x7ffff], [0x80000, 0x8ffff], [0x90000, 0x9ffff], [0xa0000, 0xaffff], [0xb0000, 0xbffff],
  [0xc0000, 0xcffff], [0xd0000, 0xdffff], [0xe0001, 0xe007f], [0xe0100, 0xe01ef], [0xf0000, 0xffffd], [0x100000, 0x10ffff],
];

const white_space = [..." \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000", "\r\n", "\n\n", "  "];
const not_white_space = [..."\u180e\u200b\u200c\u200d\u2060\ufeff\u001c\u001f\u00ad"];
const contractions = [
  "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'lL", "'D", "’s", "’ll", "'", "''", "'x",
  "'r", "'l", "'1",
];
const numbers = [
  "0", "7", "42", "123", "1234", "12345", "1234567", "3.14", "1,000", "٣٤", "१२३४", "½", "Ⅻ", "²", "㉒", "𝟙𝟚", "፩፪",
];
const punctuation = [
  ".", ",", "!", "?", "...", "--", "::", "->", "{}", "();", "\"", "`", "#", "@", "$", "%", "&&", "*", "\\", "/", "_",
  "|", "~", "…", "—", "“", "」", "。", "，", "¿",
];
const special = [
  "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
  "<|reserved_special_token_0|>", "<|reserved_special_token_10|>", "<|reserved_special_token_1",
  "<｜begin▁of▁sentence｜>",
  "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<|EOT|>", "<think>", "</think>", "<｜▁pad▁｜>", "<|endoftext|>",
  "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "café", "cafe\u0301", "<mask>", "<sep>", "<|eot_id",
  "<|", "|>",
  "<<think>>", "<THINK>", "<think", "think>", "<｜", "｜>",
];
const emoji = [
  "😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "🇫🇷🇩🇪", "✈️", "☺︎", "1️⃣", "👨🏿‍🚀", "❤️‍🔥", "🧑‍🤝‍🧑", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🤷‍♀️", "🫠", "🇫",
];
const marks = [..."\u0300\u0301\u0302\u0303\u0308\u030a\u0323\u0327\u0328\u0331\u0345\u05b0\u064b\u093c\u3099\u309a\u0f71\u0f72\u1dc0"];
const composing = [..."aAeEiIoOuUcCnNsSzZyYqw\u00e5\u00fc\u1e9b\u017f\u03b1\u03c9\u0915\u0928\u304b\u30cf\u1112\u1161\u11a8\uac00\uf900\u2126\u212b\ufb1d\u0958\u0344"];
const code = [
  "int main() {\n  return 0;\n}\n", "\tif (x == nullptr) return -1;  // why", "x = {k: v for k, v in d.items()}",
  "a[i][j] += b[i]*c[j];",
  "#include <vector>\n#include <string>\n", "const f = async (x) => { await g(x?.y ?? 0); };",
  "fn main() { println!(\"{:?}\", v); }",
  "    def __init__(self, *args, **kwargs):\n        pass\n\n\n", "$ rm -rf ./build && cmake -B build -G Ninja",
  "https://example.org/a/b?c=d#e",
  "0x1p-10f 1e-8 0b1010 0o17 1_000_000", "<!-- comment -->\n<br/>", "a\\nb\\tc", "SELECT * FROM t WHERE a<>'b';",
  "@@ -1,3 +1,4 @@\n-old\n+new\n", "^[A-Za-z_]\\w*$",
];
const edges = [
  "", " ", "  ", "\n", "\r\n", "\r\r\n\n", " \n ", "\n \n", "   x", "x   ", " x ", "\t\t\tx", "a\u0000b", "\u0000",
  "\ufeffBOM", "a\ufeff b",
  "zzzz", "zzzzz", "zzz", " reproducible", " reproducibles", " extraordinary", "...", "....", "  \n", "数学问题",
  " Überraschung", "aaaaaaaaaaaaaaaa",
  "it'\u017fa", "'\u017f", "hello", " hello", "Hello World", "HELLO", "hello\n", "\u1161\u1112", "\ud55c\uad6d",
  "\u1112\u1161\u11ab", "ﬁ", "ß", "ẞ", "İ", "ı", "ǆ", "Å", "Å", "Ω",
  "x <mask> y", "x\n <mask><mask>", "<sep>  <mask> ", "x <sep> y", "I'Sa", "o'Sab", "toString", "constructor",
  "__proto__", "hasOwnProperty", "undefined", "null",
];

const character = (random, [first, last]) => String.fromCodePoint(first + random(last - first + 1));
const several = (random, most, make) => Array.from({ length: 1 + random(most) }, make).join("");

function fragment(random) {
  const words = () => pick(random, [made_up_words(random, 1)[0], pick(random, pick(random, sentences).split(" "))]);
  const kinds = [
    words, words, words, () => " " + words(), () => pick(random, white_space), () => pick(random, contractions),
    () => pick(random, numbers), () => pick(random, punctuation), () => pick(random, emoji),
    () => several(random, 3, () => character(random, pick(random, ranges))), () => pick(random, not_white_space),
  ];
  return pick(random, kinds)();
}

function slice_of_sentence(random) {
  const characters = Array.from(pick(random, sentences));
  const start = random(characters.length);
  return characters.slice(start, start + 1 + random(40)).join("");
}

// Each kind of string, how many of it, and how one is drawn.
const kinds = [
  [350, (random) => several(random, 6, () => fragment(random))],
  [400, meeting_characters],
  [250, (random) => slice_of_sentence(random)],
  [300, (random) => several(random, 5, () => pick(random, [...special, ...special, ...white_space, "word", " word", "."]))],
  [150, (random) => several(random, 8, () => pick(random, white_space)) + pick(random, ["", "x", "1", ".", "\u180e", "é"])],
  [120, (random) => several(random, 3, () => pick(random, ["I", "they", "o", "", "é", " ", "1"]) + pick(random, contractions) + pick(random, ["", "a", " b", "S"]))],
  [160, (random) => several(random, 4, () => pick(random, composing) + several(random, 3, () => pick(random, marks)))],
  [60, (random) => several(random, 4, () => pick(random, emoji) + pick(random, ["", " ", "a"]))],
  [60, (random) => several(random, 4, () => pick(random, numbers) + pick(random, ["", " ", "a", "."]))],
  [60, (random) => pick(random, code).slice(random(5))],
  [40, (random) => several(random, 6, () => pick(random, [...not_white_space, ...white_space, "a"]))],
  [6, (random) => Array.from({ length: 120 }, () => fragment(random)).join("")],
];

export function corpus() {
  const random = random_numbers(2026);
  const strings = [...edges, ...sentences, ...code, ...special, ...emoji, ...contractions];
  for (let c = 0; c < 128; ++c) strings.push(String.fromCodePoint(c));
  for (const c of [...white_space, ...not_white_space]) strings.push(c, `a${c}b`, `${c}${c} `);
  for (const range of ranges) {
    strings.push(character(random, range));
    for (let i = 0; i < 3; ++i) strings.push(several(random, 5, () => pick(random, ["", "", " ", "a"]) + character(random, range)));
  }
  strings.push("a".repeat(3000), " ".repeat(1000), " ".repeat(500) + "x", "\n".repeat(300), "ab".repeat(700), "😀".repeat(200), "=".repeat(400), "1".repeat(301));
  for (const [count, draw] of kinds) for (let i = 0; i < count; ++i) strings.push(draw(random));
  return [...new Set(strings)];
}
