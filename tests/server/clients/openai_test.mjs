// The npm client `openai`: what it is given back, whole and streamed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generate, until_idle } from "../support/server.mjs";
import { KEY, load_package, MODEL, QUESTION, shared_server, tool, UNSURE_QUESTION, user_says } from "./setup.mjs";

const { OpenAI } = await load_package("openai");
const shared = shared_server();
const connect = (options = {}) => new OpenAI({ baseURL: `${shared.url}/v1`, apiKey: KEY, maxRetries: 0, ...options });
const chat = (question, options = {}) =>
  connect().chat.completions.create({ model: MODEL, messages: user_says(question), ...options });
const complete = (prompt, options = {}) => connect().completions.create({ model: MODEL, prompt, ...options });

async function read_all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

test("the model is listed, and found by its name", async () => {
  const { data } = await connect().models.list();
  assert.deepEqual(
    data.map(({ id, object }) => ({ id, object })),
    [{ id: MODEL, object: "model" }],
  );
  assert.deepEqual(await connect().models.retrieve(MODEL), data[0]);
  await assert.rejects(connect().models.retrieve("gpt-4o"), (error) => error instanceof OpenAI.NotFoundError);
});

test("a chat has the command line's text, and its usage counts tokens", async () => {
  const expected = generate(tool, ["--chat", "--prompt", QUESTION]);
  const reply = await chat(QUESTION);
  assert.equal(reply.object, "chat.completion");
  assert.equal(reply.choices.length, 1);
  assert.deepEqual(reply.choices[0].message, { role: "assistant", content: expected.text, refusal: null });
  assert.equal(reply.choices[0].finish_reason, "stop");
  assert.equal(reply.usage.prompt_tokens, expected.prompt_tokens.length);
  assert.equal(reply.usage.completion_tokens, expected.tokens.length);
  assert.equal(reply.usage.total_tokens, expected.prompt_tokens.length + expected.tokens.length);
  assert.ok(reply.system_fingerprint.startsWith(`fma-1-${expected.model_digest.slice(0, 16)}-`));
});

test("a streamed chat is the whole one in pieces, with one usage at its end", async () => {
  const whole = await chat(QUESTION);
  const chunks = await read_all(await chat(QUESTION, { stream: true, stream_options: { include_usage: true } }));
  const usage_chunk = chunks.pop();
  assert.deepEqual(usage_chunk.choices, []);
  assert.equal(usage_chunk.usage.completion_tokens, whole.usage.completion_tokens);
  assert.ok(
    chunks.every(({ usage }) => usage === null),
    "only the last chunk has the usage",
  );
  assert.equal(new Set([...chunks, usage_chunk].map(({ id }) => id)).size, 1);
  assert.ok(
    chunks.every(
      ({ object, system_fingerprint }) =>
        object === "chat.completion.chunk" && system_fingerprint === whole.system_fingerprint,
    ),
  );
  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  assert.equal(
    chunks.map(({ choices: [choice] }) => choice.delta.content ?? "").join(""),
    whole.choices[0].message.content,
  );
  assert.ok(chunks.length > 50, `${chunks.length} chunks are not one for each token`);
  assert.deepEqual(
    chunks.map(({ choices: [choice] }) => choice.finish_reason).filter((reason) => reason !== null),
    ["stop"],
  );
});

test("the client's own gathering of a stream gives the whole answer", async () => {
  const options = { logprobs: true, top_logprobs: 3 };
  const whole = (await chat(QUESTION, options)).choices[0];
  const runner = connect().chat.completions.stream({ model: MODEL, messages: user_says(QUESTION), ...options });
  const gathered = (await runner.finalChatCompletion()).choices[0];
  assert.equal(gathered.message.content, whole.message.content);
  assert.equal(gathered.finish_reason, whole.finish_reason);
  assert.deepEqual(gathered.logprobs.content, whole.logprobs.content);
});

test("log-probabilities of a chat: the greedy token is the first of the top, and the bytes are the text", async () => {
  const {
    choices: [choice],
  } = await chat(UNSURE_QUESTION, { logprobs: true, top_logprobs: 5 });
  const { content } = choice.logprobs;
  for (const { token, logprob, top_logprobs } of content) {
    assert.equal(top_logprobs.length, 5);
    assert.deepEqual({ token, logprob }, { token: top_logprobs[0].token, logprob: top_logprobs[0].logprob });
    for (let i = 1; i < 5; ++i) assert.ok(top_logprobs[i].logprob <= top_logprobs[i - 1].logprob);
    assert.ok(top_logprobs.reduce((sum, other) => sum + Math.exp(other.logprob), 0) <= 1 + 1e-6);
    assert.equal(Math.fround(logprob), logprob, "no bit of the binary32 value is lost");
  }
  assert.equal(Buffer.from(content.flatMap(({ bytes }) => bytes)).toString("utf8"), choice.message.content);
  assert.equal((await chat(UNSURE_QUESTION)).choices[0].logprobs, null);
});

test("a completion of a text, of its token ids and within a batch is the same", async () => {
  const text = "Pens in the boxes: 3 x 12 =";
  const options = { max_tokens: 12, logprobs: 2 };
  const alone = (await complete(text, { ...options, return_token_ids: true })).choices[0];
  assert.equal(alone.token_ids.length, 12);
  assert.equal(alone.finish_reason, "length");
  const of_ids = (await complete(alone.prompt_token_ids, options)).choices[0];
  assert.deepEqual([of_ids.text, of_ids.logprobs], [alone.text, alone.logprobs]);
  const batch = (await complete(["With 10 more: 29 +", text, "Answer:"], options)).choices;
  assert.deepEqual(
    batch.map(({ index }) => index),
    [0, 1, 2],
  );
  assert.deepEqual([batch[1].text, batch[1].logprobs], [alone.text, alone.logprobs]);
  const id_batch = (await complete([[1019, 84, 437], alone.prompt_token_ids], options)).choices;
  assert.deepEqual([id_batch[1].text, id_batch[1].logprobs], [alone.text, alone.logprobs]);
});

test("echo gives the prompt back, with log-probabilities from its second token on", async () => {
  const text = "With 10 more: 29 + 10 =";
  const plain = (await complete(text, { max_tokens: 4, logprobs: 1 })).choices[0];
  const {
    choices: [echoed],
    usage,
  } = await complete(text, { max_tokens: 4, logprobs: 1, echo: true });
  assert.equal(echoed.text, text + plain.text);
  const { tokens, token_logprobs, top_logprobs, text_offset } = echoed.logprobs;
  assert.deepEqual(
    [tokens, token_logprobs, top_logprobs, text_offset].map(({ length }) => length),
    Array(4).fill(usage.total_tokens),
  );
  assert.deepEqual([token_logprobs[0], top_logprobs[0]], [null, null]);
  assert.ok(token_logprobs.slice(1).every((value) => value <= 0));
  assert.deepEqual(token_logprobs.slice(usage.prompt_tokens), plain.logprobs.token_logprobs);
  for (let i = usage.prompt_tokens; i < tokens.length; ++i)
    assert.ok(echoed.text.startsWith(tokens[i], text_offset[i]));
  const {
    choices: [prompt_only],
  } = await complete(text, { max_tokens: 0, logprobs: 1, echo: true });
  assert.equal(prompt_only.text, text);
  assert.deepEqual(prompt_only.logprobs.token_logprobs, token_logprobs.slice(0, usage.prompt_tokens));
});

test("a streamed completion of several prompts is the whole one, choice by choice", async () => {
  const options = { max_tokens: 10, temperature: 1, seed: 3, n: 2, logprobs: 1 };
  const prompts = ["Pens in the boxes:", "Answer:"];
  const { choices } = await complete(prompts, options);
  const chunks = await read_all(await complete(prompts, { ...options, stream: true }));
  for (const { index, text, finish_reason, logprobs } of choices) {
    const parts = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index);
    assert.equal(parts.map((part) => part.text).join(""), text);
    assert.equal(parts.at(-1).finish_reason, finish_reason);
    assert.deepEqual(
      parts.flatMap((part) => part.logprobs?.token_logprobs ?? []),
      logprobs.token_logprobs,
    );
  }
});

test("a seed gives the same answer again, and others give others", async () => {
  const ask = async (seed) =>
    (await chat(UNSURE_QUESTION, { temperature: 1.5, seed, max_tokens: 30 })).choices[0].message.content;
  const answers = await Promise.all([1, 2, 3, 1, 2, 3, -1].map(ask));
  assert.deepEqual(answers.slice(0, 3), answers.slice(3, 6));
  assert.equal(new Set(answers).size, 4);
});

test("choice i of n is the answer that seed + i gives alone", async () => {
  const options = { temperature: 1.5, max_tokens: 20, digest: true };
  const { choices } = await chat(UNSURE_QUESTION, { ...options, n: 4, seed: 40 });
  assert.deepEqual(
    choices.map(({ index }) => index),
    [0, 1, 2, 3],
  );
  const alone = await Promise.all([40, 41, 42, 43].map((seed) => chat(UNSURE_QUESTION, { ...options, seed })));
  assert.deepEqual(
    choices.map(({ message, digest }) => [message.content, digest]),
    alone.map(({ choices: [{ message, digest }] }) => [message.content, digest]),
  );
  assert.equal(new Set(choices.map(({ digest }) => digest)).size, 4);
});

test("a stop string ends the text before it, and no part of it is streamed", async () => {
  const {
    choices: [free],
  } = await chat(QUESTION);
  const stop = ["never", ".\nWithout"];
  const expected = free.message.content.slice(0, free.message.content.indexOf(stop[1]));
  const {
    choices: [stopped],
  } = await chat(QUESTION, { stop });
  assert.deepEqual([stopped.message.content, stopped.finish_reason, stopped.stop_reason], [expected, "stop", stop[1]]);
  const chunks = await read_all(await chat(QUESTION, { stop, stream: true }));
  assert.equal(chunks.map(({ choices: [choice] }) => choice.delta.content ?? "").join(""), expected);
});

test("max_completion_tokens cuts an answer, and says so", async () => {
  const reply = await chat(QUESTION, { max_completion_tokens: 5 });
  assert.equal(reply.choices[0].finish_reason, "length");
  assert.equal(reply.usage.completion_tokens, 5);
});

test("a stream that its reader leaves is given up", async () => {
  const stream = await chat(QUESTION, { stream: true, max_tokens: 900, ignore_eos: true });
  for await (const {
    choices: [choice],
  } of stream)
    if (choice.delta.content) break;
  await until_idle(shared.url, shared.headers);
});
