// Requests that make no sense: a clear error where there is somebody to answer, and the server goes on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { request } from "../support/http.mjs";
import {
  assert_error,
  CHAT,
  COMPLETION,
  connect,
  parse_answer,
  post_text,
  say,
  shared_server,
  within,
} from "./setup.mjs";

const shared = shared_server();
const LONG = Number(process.env.REPROFUSE_LONG_PROMPT ?? 10_000_000); // bytes
const CLOSE = { Connection: "close" };
const ask = async (bytes) => parse_answer(await say(shared.port, bytes));
const refuse = async (body, status = 400, code = undefined) =>
  assert_error(await request(shared.url, COMPLETION, { body }), status, code);

for (const [name, body] of [
  ["nothing", ""],
  ["no JSON", "hello"],
  ["JSON that ends too early", '{"prompt": "a", "max_tokens": '],
  ["something after the JSON", '{"prompt": "a"} {}'],
  ["a list", "[]"],
  ["a number", "1e400"],
  ["null", "null"],
  ["a comment", '{"prompt": "a" /* really */}'],
  ["NaN", '{"prompt": "a", "temperature": NaN}'],
  ["a number beyond all", '{"prompt": "a", "temperature": 1e999}'],
  ["a key twice", '{"prompt": "a", "prompt": "b"}'],
  ["half a surrogate", '{"prompt": "\\ud83d"}'],
  ["a raw newline in a string", '{"prompt": "a\nb"}'],
  ["100,000 brackets", `{"prompt": ${"[".repeat(100_000)}`],
  ["100,000 brackets that close", `{"prompt": ${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
  ["a byte that is no UTF-8", Buffer.from('{"prompt": "a\xff"}', "latin1")],
  ["an overlong NUL", Buffer.from('{"prompt": "a\xc0\x80"}', "latin1")],
  ["UTF-16", Buffer.from('{"prompt": "a"}', "utf16le")],
])
  test(`a body that is ${name} is a 400`, () => refuse(body));

for (const [field, value] of [
  ["prompt", 7],
  ["prompt", {}],
  ["prompt", [[]]],
  ["prompt", [["a"]]],
  ["prompt", [1.5]],
  ["prompt", null],
  ["prompt", [1e30]],
  ["model", 7],
  ["max_tokens", "7"],
  ["max_tokens", -1],
  ["max_tokens", 1e30],
  ["temperature", []],
  ["temperature", -0.1],
  ["top_p", 2],
  ["top_k", 1.5],
  ["seed", "1"],
  ["seed", 1e30],
  ["n", -1],
  ["n", 1e9],
  ["stop", 7],
  ["stop", [null]],
  ["stop", Array(17).fill("a")],
  ["stop", "a".repeat(2000)],
  ["logprobs", true],
  ["logprobs", 21],
  ["logprobs", -1],
  ["echo", "yes"],
  ["stream", 1],
  ["stream_options", []],
  ["stream_options", { include_usage: 1 }],
  ["stop_token_ids", [5000]],
  ["stop_token_ids", "1"],
  ["priority", 1e12],
  ["digest", "true"],
  ["suffix", "b"],
  ["best_of", 5],
  ["no_such_field", 0],
]) {
  test(`${field} = ${JSON.stringify(value).slice(0, 40)} is a 400`, () =>
    refuse({ prompt: "a", max_tokens: 1, [field]: value }));
}

test(`a prompt of ${LONG / 1e6} MB is refused because of its tokens`, async () => {
  await refuse({ prompt: "word ".repeat(LONG / 5), max_tokens: 1 }, 400, "context_length_exceeded");
});

test(`a prompt of ${LONG / 1e6} MB without a space is refused because of its tokens`, async () => {
  await refuse({ prompt: "x".repeat(LONG), max_tokens: 1 }, 400, "context_length_exceeded");
});

test(`a message of ${LONG / 1e6} MB is refused because of its tokens`, async () => {
  const body = { messages: [{ role: "user", content: "7".repeat(LONG) }] };
  assert_error(await request(shared.url, CHAT, { body }), 400, "context_length_exceeded");
});

test(`${LONG / 2.5} token ids are refused because of their number`, async () => {
  await refuse({ prompt: Array(LONG / 2.5).fill(84), max_tokens: 1 }, 400, "context_length_exceeded");
});

test("more prompts than a request may have are refused", () =>
  refuse({ prompt: Array(5000).fill("a"), max_tokens: 1 }));

test("a body of 20 MB is refused from its header alone", async () => {
  const answer = await ask(post_text(COMPLETION, "", { "Content-Length": 20_000_000 }));
  assert_error(answer, 413, "body_too_large");
});

test("a body of 20 MB in chunks is refused when it has become too large", async () => {
  const connection = connect(shared.port);
  connection.socket.write(post_text(COMPLETION, "", { "Content-Length": undefined, "Transfer-Encoding": "chunked" }));
  const chunk = Buffer.from(`100000\r\n${"x".repeat(0x100000)}\r\n`);
  for (let i = 0; i < 20 && connection.received() === ""; ++i) {
    await new Promise((resolve) => connection.socket.write(chunk, resolve));
  }
  assert_error(parse_answer(await within(8_000, connection.closed, "the answer")), 413, "body_too_large");
});

const SMALL = JSON.stringify({ prompt: "Answer:", max_tokens: 1 });
for (const [name, bytes, status] of [
  ["a header of 1 MB", () => post_text(COMPLETION, SMALL, { "X-Long": "a".repeat(1_000_000) }), 431],
  ["100,000 headers", () => Buffer.from(`GET /health HTTP/1.1\r\n${"A: b\r\n".repeat(100_000)}\r\n`), 431],
  ["an address of 100 KB", () => Buffer.from(`GET /${"a".repeat(100_000)} HTTP/1.1\r\n\r\n`), [414, 431]],
  ["no HTTP", () => Buffer.from("hello\r\n\r\n"), 400],
  ["TLS", () => Buffer.from("1603010200010001fc03030a", "hex"), 400],
  ["bytes without a line", () => Buffer.alloc(100_000, 0), [400, 431]],
  ["a version from the future", () => Buffer.from("GET /health HTTP/9.9\r\n\r\n"), 400],
  ["no Host", () => post_text(COMPLETION, SMALL, { Host: undefined }), 400],
  ["no Content-Length", () => post_text(COMPLETION, SMALL, { "Content-Length": undefined }), 411],
  ["a Content-Length that is no number", () => post_text(COMPLETION, SMALL, { "Content-Length": "many" }), 400],
  ["a negative Content-Length", () => post_text(COMPLETION, SMALL, { "Content-Length": "-5" }), 400],
  [
    "a Content-Length beyond 64 bits",
    () => post_text(COMPLETION, SMALL, { "Content-Length": "99999999999999999999" }),
    400,
  ],
  [
    "a Content-Length that is too short",
    () => post_text(COMPLETION, SMALL, { "Content-Length": SMALL.length - 3, ...CLOSE }),
    400,
  ],
  ["two lengths", () => post_text(COMPLETION, SMALL, { "content-length": SMALL.length + 1 }), 400],
  ["a length and chunks", () => post_text(COMPLETION, SMALL, { "Transfer-Encoding": "chunked" }), 400],
  [
    "another encoding",
    () => post_text(COMPLETION, SMALL, { "Content-Length": undefined, "Transfer-Encoding": "gzip" }),
    501,
  ],
  [
    "a chunk of negative size",
    () =>
      post_text(COMPLETION, "-1\r\nab\r\n0\r\n\r\n", { "Content-Length": undefined, "Transfer-Encoding": "chunked" }),
    400,
  ],
  [
    "a chunk of no size",
    () =>
      post_text(COMPLETION, "zz\r\nab\r\n0\r\n\r\n", { "Content-Length": undefined, "Transfer-Encoding": "chunked" }),
    400,
  ],
  [
    "a chunk larger than all",
    () =>
      post_text(COMPLETION, "ffffffffffffffff\r\nab\r\n", {
        "Content-Length": undefined,
        "Transfer-Encoding": "chunked",
      }),
    [400, 413],
  ],
  ["a compressed body", () => post_text(COMPLETION, SMALL, { "Content-Encoding": "gzip" }), 415],
  ["a form", () => post_text(COMPLETION, SMALL, { "Content-Type": "text/plain" }), 415],
]) {
  test(`${name} is an error with status ${status}`, async () => {
    const answer = await ask(bytes());
    const statuses = [status].flat();
    assert_error(answer, statuses.includes(answer.status) ? answer.status : statuses[0]);
    assert.doesNotMatch(answer.rest, /HTTP\/1/, "there was one request, or where the next begins is unknown");
  });
}

test("a body in chunks of one byte is read like any other", async () => {
  const chunks = [...SMALL].map((letter) => `1\r\n${letter}\r\n`).join("");
  const bytes = post_text(COMPLETION, `${chunks}0\r\n\r\n`, {
    "Content-Length": undefined,
    "Transfer-Encoding": "chunked",
    ...CLOSE,
  });
  const answer = parse_answer(await say(shared.port, bytes));
  assert.equal(answer.status, 200);
});

test("requests sent without waiting are answered in their order", async () => {
  const body = (prompt) => JSON.stringify({ prompt, max_tokens: 4, echo: true });
  const prompts = ["one", "two", "three", "four", "five"];
  const bytes = Buffer.concat(prompts.map((prompt, i) => post_text(COMPLETION, body(prompt), i === 4 ? CLOSE : {})));
  let rest = await say(shared.port, bytes);
  for (const prompt of prompts) {
    const answer = parse_answer(rest);
    assert.equal(answer.status, 200, answer.body);
    assert.ok(JSON.parse(answer.body).choices[0].text.startsWith(prompt));
    rest = answer.rest;
  }
  assert.equal(rest, "");
});

test("requests sent without waiting, some of them wrong: each has its answer", async () => {
  const bytes = Buffer.concat([
    post_text(COMPLETION, "{"),
    post_text("/nothing", SMALL),
    post_text(COMPLETION, SMALL, CLOSE),
  ]);
  const first = parse_answer(await say(shared.port, bytes));
  assert_error(first, 400);
  assert_error(parse_answer(first.rest), 404);
});
