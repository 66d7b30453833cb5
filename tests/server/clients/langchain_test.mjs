// The npm client `@langchain/openai`: chat and plain models, whole, streamed and in batches.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generate } from "../support/server.mjs";
import { KEY, load_package, MODEL, QUESTION, shared_server, tool, UNSURE_QUESTION } from "./setup.mjs";

process.env.LANGCHAIN_TRACING_V2 = "false"; // nothing is told to anybody else
const { ChatOpenAI, OpenAI } = await load_package("@langchain/openai", 20);
const shared = shared_server();
const options_with = (options) => ({
  model: MODEL,
  apiKey: KEY,
  maxRetries: 0,
  configuration: { baseURL: `${shared.url}/v1` },
  ...options,
});
const chat_model = (options = {}) => new ChatOpenAI(options_with({ temperature: 0, ...options }));
const text_model = (options = {}) => new OpenAI(options_with({ temperature: 0, ...options }));

test("a chat has the command line's text, finish reason and usage", async () => {
  const expected = generate(tool, ["--chat", "--prompt", QUESTION]);
  const message = await chat_model().invoke(QUESTION);
  assert.equal(message.content, expected.text);
  assert.equal(message.response_metadata.finish_reason, "stop");
  assert.ok(message.response_metadata.system_fingerprint.startsWith("fma-1-"));
  assert.equal(message.usage_metadata.input_tokens, expected.prompt_tokens.length);
  assert.equal(message.usage_metadata.output_tokens, expected.tokens.length);
});

test("a streamed chat is the whole one, with its usage", async () => {
  const whole = await chat_model().invoke(QUESTION);
  let gathered;
  let pieces = 0;
  for await (const chunk of await chat_model().stream(QUESTION)) {
    gathered = gathered === undefined ? chunk : gathered.concat(chunk);
    ++pieces;
  }
  assert.equal(gathered.content, whole.content);
  assert.deepEqual(gathered.usage_metadata.output_tokens, whole.usage_metadata.output_tokens);
  assert.ok(pieces > 50, `${pieces} pieces are not one for each token`);
});

test("log-probabilities are the same, whole and streamed", async () => {
  const options = { logprobs: true, topLogprobs: 3 };
  const whole = (await chat_model(options).invoke(UNSURE_QUESTION)).response_metadata.logprobs.content;
  assert.ok(
    whole.every(({ logprob, top_logprobs }) => top_logprobs.length === 3 && top_logprobs[0].logprob === logprob),
  );
  const streamed = [];
  for await (const { response_metadata } of await chat_model(options).stream(UNSURE_QUESTION)) {
    streamed.push(...(response_metadata.logprobs?.content ?? []));
  }
  assert.deepEqual(streamed, whole);
});

test("a batch of chats, sent at once, has the answers that they have alone", async () => {
  const questions = ["What is 48 + 27?", "What is 12 + 30?", QUESTION];
  const together = await chat_model().batch(questions);
  for (const [i, question] of questions.entries()) {
    assert.equal(together[i].content, (await chat_model().invoke(question)).content);
  }
  assert.equal(new Set(together.map(({ content }) => content)).size, questions.length);
});

test("a conversation of several messages is sent as such", async () => {
  const reply = await chat_model().invoke([
    ["system", "Be brief."],
    ["human", "What is 48 + 27?"],
    ["ai", "Answer: 75"],
    ["human", "What is 12 + 30?"],
  ]);
  assert.match(reply.content, /Answer: 42$/);
});

test("a seed gives the same answer again, and others give others", async () => {
  const ask = async (seed) =>
    (await chat_model({ temperature: 1.5, maxTokens: 20, modelKwargs: { seed } }).invoke(UNSURE_QUESTION)).content;
  const answers = await Promise.all([1, 2, 1, 2].map(ask));
  assert.deepEqual(answers.slice(0, 2), answers.slice(2));
  assert.notEqual(answers[0], answers[1]);
});

test("stop strings end an answer before them", async () => {
  assert.match((await chat_model().invoke(QUESTION, { stop: [".\n"] })).content, /= 36$/);
});

test("a plain model goes on with a text, whole and streamed", async () => {
  const prompt = "Pens in the boxes: 3 x 12 =";
  const expected = generate(tool, ["--prompt", prompt, "--max-tokens", "12"]);
  assert.equal(await text_model({ maxTokens: 12 }).invoke(prompt), expected.text);
  let text = "";
  for await (const piece of await text_model({ maxTokens: 12 }).stream(prompt)) text += piece;
  assert.equal(text, expected.text);
  const { generations } = await text_model({ maxTokens: 12 }).generate([prompt, "Answer:"]);
  assert.equal(generations[0][0].text, expected.text);
});

for (const [name, options, status] of [
  ["a wrong model", { model: "gpt-4o" }, 404],
  ["a wrong key", { apiKey: "sk-wrong" }, 401],
  ["a temperature below 0", { temperature: -1 }, 400],
]) {
  test(`${name} is an error with status ${status}`, async () => {
    await assert.rejects(chat_model(options).invoke("What is 48 + 27?"), (error) => error.status === status);
    await assert.rejects(
      async () => {
        for await (const _ of await chat_model(options).stream("What is 48 + 27?")) assert.fail("a chunk came");
      },
      (error) => error.status === status,
    );
  });
}

test("a question that is too long is LangChain's own exception for that", async () => {
  const { ContextOverflowError } = await load_package("@langchain/core/errors");
  const is_overflow = (error) => ContextOverflowError.isInstance(error) && error.cause.status === 400;
  await assert.rejects(chat_model().invoke("How many? ".repeat(600)), is_overflow);
  await assert.rejects(chat_model({ maxTokens: 5000 }).invoke("What is 48 + 27?"), is_overflow);
});
