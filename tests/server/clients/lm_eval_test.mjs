// The request pattern of lm-evaluation-harness's `local-completions`: what it sends for log-likelihoods, and what it
// reads from the reply (lm_eval/models/openai_completions.py, _create_payload and parse_logprobs). Whether a
// continuation is the greedy one is decided there by comparing two numbers for equality.
import assert from "node:assert/strict";
import { test } from "node:test";
import { request } from "../support/http.mjs";
import { MODEL, QUESTION, shared_server, user_says } from "./setup.mjs";

const shared = shared_server();

async function post(path, body) {
  const reply = await request(shared.url, path, { body, headers: shared.headers });
  assert.equal(reply.status, 200, reply.body);
  return reply.json();
}

const encode = async (text) => (await post("/tokenize", { prompt: text, add_special_tokens: false })).tokens;
const payload_of = (prompt) => ({
  model: MODEL,
  prompt,
  temperature: 0,
  max_tokens: 1,
  logprobs: 1,
  seed: 1234,
  echo: true,
});

function parse_logprobs({ choices }, context_lengths) {
  return [...choices]
    .sort((a, b) => a.index - b.index)
    .map(({ logprobs }, i) => {
      const token_logprobs = logprobs.token_logprobs.slice(context_lengths[i], -1);
      const top_logprobs = logprobs.top_logprobs.slice(context_lengths[i], -1);
      return {
        loglikelihood: token_logprobs.reduce((sum, value) => sum + value, 0),
        is_greedy: token_logprobs.every((value, at) => value === Math.max(...Object.values(top_logprobs[at]))),
      };
    });
}

// Contexts with continuations of several lengths, some of them greedy: what the harness makes of a multiple-choice
// question.
async function likelihood_requests() {
  const contexts = ["Pens in the boxes: 3 x 12 =", "With 10 more: 29 + 10 =", "Answer:", `${QUESTION}\n`];
  const requests = [];
  for (const context of contexts) {
    const context_ids = [1019, ...(await encode(context))];
    const {
      choices: [greedy],
    } = await post("/v1/completions", {
      model: MODEL,
      prompt: context_ids,
      temperature: 0,
      max_tokens: 6,
      ignore_eos: true,
      return_token_ids: true,
    });
    for (const [continuation, is_greedy] of [
      [greedy.token_ids, true],
      [greedy.token_ids.slice(0, 1), true],
      [await encode(" 38."), false],
      [[...greedy.token_ids.slice(0, 5), 7], false],
    ])
      requests.push({ tokens: [...context_ids, ...continuation], context: context_ids.length, is_greedy });
  }
  return requests;
}

async function likelihoods(requests, batch_size) {
  const results = [];
  for (let i = 0; i < requests.length; i += batch_size) {
    const batch = requests.slice(i, i + batch_size);
    const reply = await post("/v1/completions", payload_of(batch.map(({ tokens }) => tokens)));
    results.push(
      ...parse_logprobs(
        reply,
        batch.map(({ context }) => context),
      ),
    );
  }
  return results;
}

test("log-likelihoods are equal bit for bit, whatever batch they were sent in", async () => {
  const requests = await likelihood_requests();
  const alone = await likelihoods(requests, 1);
  assert.deepEqual(await likelihoods(requests, 16), alone);
  assert.deepEqual(await likelihoods(requests, 3), alone);
  assert.deepEqual((await likelihoods([...requests].reverse(), 5)).reverse(), alone);
  const concurrent = await Promise.all(requests.map((one) => likelihoods([one], 1)));
  assert.deepEqual(concurrent.flat(), alone);
  assert.ok(alone.every(({ loglikelihood }) => loglikelihood < 0));
  const distinct = new Set(alone.map(({ loglikelihood }) => loglikelihood)).size;
  assert.ok(distinct > alone.length / 2, `only ${distinct} of ${alone.length} differ, so a mix-up would not show`);
});

test("is_greedy tells the model's own continuation from every other", async () => {
  const requests = await likelihood_requests();
  const results = await likelihoods(requests, requests.length);
  assert.deepEqual(
    results.map(({ is_greedy }) => is_greedy),
    requests.map(({ is_greedy }) => is_greedy),
  );
  assert.ok(requests.some(({ is_greedy }) => is_greedy) && requests.some(({ is_greedy }) => !is_greedy));
});

test("a prompt's log-probabilities are those with which the same tokens are generated", async () => {
  const context = [1019, ...(await encode("Pens in the boxes: 3 x 12 ="))];
  const {
    choices: [answer],
  } = await post("/v1/completions", {
    model: MODEL,
    prompt: context,
    temperature: 0,
    max_tokens: 40,
    logprobs: 1,
    ignore_eos: true,
    return_token_ids: true,
  });
  const {
    choices: [echo],
  } = await post("/v1/completions", payload_of([[...context, ...answer.token_ids]]));
  assert.equal(answer.token_ids.length, 40);
  assert.deepEqual(echo.logprobs.token_logprobs.slice(context.length, -1), answer.logprobs.token_logprobs);
  assert.deepEqual(echo.logprobs.top_logprobs.slice(context.length, -1), answer.logprobs.top_logprobs);
});

test("tokens that are no text of their own keep their entries apart", async () => {
  // Every byte is a token. Of those from 0x80 on none is valid alone, and all would read as the same replacement.
  const broken = [];
  for (let id = 0; id < 256 && broken.length < 50; ++id) {
    const { prompt } = await post("/detokenize", { tokens: [id] });
    if (prompt.includes("\ufffd")) broken.push(id);
  }
  assert.equal(broken.length, 50);
  const {
    choices: [choice],
  } = await post("/v1/completions", { ...payload_of([[1019, ...broken]]), logprobs: 20 });
  for (const [at, top] of choice.logprobs.top_logprobs.slice(1, -1).entries()) {
    assert.ok(Object.keys(top).length >= 20, `position ${at + 1} has ${Object.keys(top).length} entries`);
    assert.equal(top[choice.logprobs.tokens[at + 1]], choice.logprobs.token_logprobs[at + 1]);
  }
});

test("one changed token changes the log-likelihood", async () => {
  const [one] = await likelihood_requests();
  const other = { ...one, tokens: one.tokens.map((token, at) => (at === 3 ? 99 : token)) };
  const [[expected], [changed]] = await Promise.all([likelihoods([one], 1), likelihoods([other], 1)]);
  assert.notEqual(changed.loglikelihood, expected.loglikelihood);
});

test("generation until a stop string, as its generate_until asks", async () => {
  const payload = {
    prompt: [await encode("Pens in the boxes: 3 x 12 =")],
    model: MODEL,
    max_tokens: 64,
    temperature: 0,
    seed: 1234,
  };
  const {
    choices: [free],
  } = await post("/v1/completions", { ...payload, stop: [] });
  const {
    choices: [stopped],
  } = await post("/v1/completions", { ...payload, stop: [".\n", "<|eot_id|>"] });
  assert.ok(free.text.includes(".\n"), free.text);
  assert.deepEqual([stopped.text, stopped.finish_reason], [free.text.slice(0, free.text.indexOf(".\n")), "stop"]);
});

test("messages as its local-chat-completions writes them, each with a type", async () => {
  const messages = user_says(QUESTION).map((message) => ({ ...message, type: "text" }));
  const body = { model: MODEL, max_tokens: 256, temperature: 0, stop: ["<|eot_id|>"], seed: 1234 };
  const typed = await post("/v1/chat/completions", { ...body, messages });
  const plain = await post("/v1/chat/completions", { ...body, messages: user_says(QUESTION) });
  assert.deepEqual(typed.choices, plain.choices);
});
