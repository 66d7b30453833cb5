// The digest of an answer over HTTP is the one of `reprofuse generate`, whole and streamed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { request } from "../support/http.mjs";
import { generate } from "../support/server.mjs";
import { KEY, QUESTION, shared_server, tool, UNSURE_QUESTION, user_says } from "./setup.mjs";

const shared = shared_server(["--allow-priority"]);

async function ask(path, body) {
  const reply = await request(shared.url, path, { body: { digest: true, ...body }, headers: shared.headers });
  assert.equal(reply.status, 200, reply.body);
  return reply;
}

const whole_digest = async (path, body) => (await ask(path, body)).json().choices[0].digest;

// The digests of a stream's chunks, in their order.
async function streamed_digests(path, body) {
  const { body: text } = await ask(path, { ...body, stream: true });
  return [...text.matchAll(/"digest":"(tree-1:[0-9a-f]{64})"/g)].map(([, digest]) => digest);
}

const CHAT = "/v1/chat/completions";
const COMPLETION = "/v1/completions";
for (const [name, path, body, options] of [
  ["a greedy chat", CHAT, { messages: user_says(QUESTION) }, ["--chat", "--prompt", QUESTION]],
  [
    "a chat with a system message",
    CHAT,
    { messages: [{ role: "system", content: "Be brief." }, ...user_says(QUESTION)] },
    ["--chat", "--system", "Be brief.", "--prompt", QUESTION],
  ],
  [
    "a sampled chat",
    CHAT,
    {
      messages: user_says(UNSURE_QUESTION),
      temperature: 1.5,
      top_p: 0.9,
      top_k: 50,
      min_p: 0.01,
      seed: 7,
      max_tokens: 40,
    },
    [
      "--chat",
      "--prompt",
      UNSURE_QUESTION,
      "--temperature",
      "1.5",
      "--top-p",
      "0.9",
      "--top-k",
      "50",
      "--min-p",
      "0.01",
      "--seed",
      "7",
      "--max-tokens",
      "40",
    ],
  ],
  [
    "a chat with a repetition penalty",
    CHAT,
    { messages: user_says(UNSURE_QUESTION), repetition_penalty: 1.25, max_tokens: 30 },
    ["--chat", "--prompt", UNSURE_QUESTION, "--repetition-penalty", "1.25", "--max-tokens", "30"],
  ],
  [
    "a text",
    COMPLETION,
    { prompt: "Pens in the boxes:", max_tokens: 20 },
    ["--prompt", "Pens in the boxes:", "--max-tokens", "20"],
  ],
  [
    "token ids",
    COMPLETION,
    { prompt: [1019, 84, 437, 309], max_tokens: 20, ignore_eos: true },
    ["--prompt-tokens", "1019,84,437,309", "--max-tokens", "20", "--ignore-stop"],
  ],
]) {
  test(`${name} has the digest of the command line, whole and at the end of its stream`, async () => {
    const expected = generate(tool, options);
    assert.equal(await whole_digest(path, body), expected.digest);
    const digests = await streamed_digests(path, body);
    assert.equal(digests.at(-1), expected.digest);
  });
}

test("the digest so far is the one of the answer cut there", async () => {
  const body = { messages: user_says(UNSURE_QUESTION), temperature: 1.5, seed: 7, max_tokens: 12 };
  const digests = await streamed_digests(CHAT, body);
  for (const cut of [1, 2, 11]) assert.equal(digests[cut - 1], await whole_digest(CHAT, { ...body, max_tokens: cut }));
});

test("another seed, temperature or word has another digest", async () => {
  const body = { messages: user_says(UNSURE_QUESTION), temperature: 1.5, seed: 7, max_tokens: 10 };
  const digests = await Promise.all(
    [
      body,
      { ...body, seed: 8 },
      { ...body, temperature: 0 },
      { ...body, messages: user_says(`${UNSURE_QUESTION} `.replace("4", "5")) },
    ].map((one) => whole_digest(CHAT, one)),
  );
  assert.equal(new Set(digests).size, digests.length);
});

test("what only tells more about an answer leaves its digest alone", async () => {
  const body = { messages: user_says(QUESTION) };
  const expected = await whole_digest(CHAT, body);
  for (const more of [
    { logprobs: true, top_logprobs: 20 },
    { prompt_logprobs: 5 },
    { return_token_ids: true },
    { priority: -3 },
    { user: KEY },
  ]) {
    assert.equal(await whole_digest(CHAT, { ...body, ...more }), expected, JSON.stringify(more));
  }
});
