// The npm client `openai`: what is refused arrives as its typed exceptions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, load_package, MODEL, shared_server, user_says } from "./setup.mjs";

const { OpenAI } = await load_package("openai");
const shared = shared_server();
const connect = (apiKey = KEY) => new OpenAI({ baseURL: `${shared.url}/v1`, apiKey, maxRetries: 0 });
const HELLO = { model: MODEL, messages: user_says("What is 48 + 27?") };

// `call` fails with this class and these properties; `words` are in the message.
async function refused(call, type, { words, ...properties }) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
    for (const [name, value] of Object.entries(properties)) assert.equal(error[name], value, name);
    assert.match(error.message, words);
    return true;
  });
}

for (const [name, stream] of [
  ["whole", false],
  ["streamed", true],
]) {
  test(`a wrong model, ${name}, is a NotFoundError`, () =>
    refused(connect().chat.completions.create({ ...HELLO, model: "gpt-4o", stream }), OpenAI.NotFoundError, {
      status: 404,
      code: "model_not_found",
      param: "model",
      type: "invalid_request_error",
      words: /gpt-4o/,
    }));

  test(`a wrong key, ${name}, is an AuthenticationError`, () =>
    refused(connect("sk-wrong").chat.completions.create({ ...HELLO, stream }), OpenAI.AuthenticationError, {
      status: 401,
      code: "invalid_api_key",
      words: /API keys/,
    }));

  test(`a prompt that is too long, ${name}, is a BadRequestError`, () =>
    refused(
      connect().chat.completions.create({ ...HELLO, messages: user_says("How many? ".repeat(600)), stream }),
      OpenAI.BadRequestError,
      {
        status: 400,
        code: "context_length_exceeded",
        param: "messages",
        words: /maximum context length is 1024 tokens/,
      },
    ));
}

for (const [field, value, words] of [
  ["temperature", "hot", /temperature.*hot/],
  ["temperature", -1, /temperature.*-1/],
  ["max_tokens", 1.5, /max_tokens.*1\.5/],
  ["max_tokens", 2000, /context length.*2000/],
  ["top_p", 1.5, /top_p.*1\.5/],
  ["n", 0, /n .*0/],
  ["n", 129, /129/],
  ["seed", 1.25, /seed.*1\.25/],
  ["stop", [""], /stop/],
  ["stream", "yes", /stream.*yes/],
  ["logprobs", 3, /logprobs.*3/],
  ["top_logprobs", 2, /top_logprobs.*logprobs is not true/],
  ["messages", [], /messages/],
  ["messages", [{ role: "robot", content: "x" }], /messages\[0\]\.role.*robot/],
  ["messages", [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }], /image_url/],
  ["presence_penalty", 0.5, /presence_penalty.*0\.5/],
  ["logit_bias", { 50: 10 }, /logit_bias/],
  ["response_format", { type: "json_object" }, /response_format/],
  ["colour", "red", /colour/],
]) {
  test(`${field} = ${JSON.stringify(value)} is a BadRequestError that names it`, () =>
    refused(connect().chat.completions.create({ ...HELLO, [field]: value }), OpenAI.BadRequestError, {
      status: 400,
      type: "invalid_request_error",
      words,
    }));
}

test("bad prompts of completions are BadRequestErrors that say which", async () => {
  const complete = (prompt) => connect().completions.create({ model: MODEL, prompt });
  for (const [prompt, words] of [
    [[], /prompt/],
    [[1019, 5000], /5000/],
    [[1019, -1], /-1/],
    [["fine", 7], /prompt/],
    [
      [
        [1019, 84],
        [1019, 1024],
      ],
      /prompt\[1\].*1024/,
    ],
    [Array(1025).fill(84), /maximum context length is 1024 tokens/],
    [["fine", "long ".repeat(1100)], /prompt\[1\]/],
  ])
    await refused(complete(prompt), OpenAI.BadRequestError, { status: 400, words });
});

test("a refused request changes nothing: the next is answered", async () => {
  await assert.rejects(connect().chat.completions.create({ ...HELLO, temperature: "hot" }));
  const {
    choices: [choice],
  } = await connect().chat.completions.create(HELLO);
  assert.match(choice.message.content, /Answer: 75$/);
});
