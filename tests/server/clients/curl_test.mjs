// curl, as people type it.
import assert from "node:assert/strict";
import { execFile, spawn, spawnSync } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { generate, until_idle } from "../support/server.mjs";
import { KEY, MODEL, QUESTION, shared_server, tool, user_says } from "./setup.mjs";

if (spawnSync("curl", ["--version"]).error) {
  console.log("skipped: curl was not found");
  process.exit(77);
}

const shared = shared_server();
const AUTHORIZED = ["-H", `Authorization: Bearer ${KEY}`];
const JSON_BODY = ["-H", "Content-Type: application/json", "-d"];
const chat_body = (options) => JSON.stringify({ messages: user_says(QUESTION), ...options });

// { status, type, body }
async function curl(path, ...options) {
  const { stdout } = await promisify(execFile)("curl", [
    "-sS",
    "-w",
    "\n%{http_code} %{content_type}",
    ...options,
    `${shared.url}${path}`,
  ]);
  const end = stdout.lastIndexOf("\n");
  const [, status, type] = /^(\d+) (.*)$/.exec(stdout.slice(end + 1));
  return { status: Number(status), type, body: stdout.slice(0, end) };
}

for (const [path, type, words, ...options] of [
  ["/health", "application/json", /"ok"/],
  ["/version", "application/json", /"version":"\d+\.\d+\.\d+"/],
  ["/metrics", "text/plain; version=0.0.4; charset=utf-8", /^reprofuse:num_requests_running\{/m, ...AUTHORIZED],
  ["/", "text/html; charset=utf-8", /<!doctype html>/i],
  ["/v1/models", "application/json", new RegExp(`"id":"${MODEL}"`), ...AUTHORIZED],
  [`/v1/models/${MODEL}`, "application/json", new RegExp(`"id":"${MODEL}"`), ...AUTHORIZED],
]) {
  test(`GET ${path} answers, and HEAD has the same header without a body`, async () => {
    const reply = await curl(path, ...options);
    assert.deepEqual([reply.status, reply.type], [200, type]);
    assert.match(reply.body, words);
    const { stdout: head } = await promisify(execFile)("curl", ["-sS", "-I", ...options, `${shared.url}${path}`]);
    assert.match(head, /^HTTP\/1\.1 200 /);
    assert.ok(head.toLowerCase().includes(`content-type: ${type}`), head);
    assert.match(head, /^content-length: [1-9]\d*\r$/im);
    assert.ok(head.endsWith("\r\n\r\n"));
  });
}

test("a chat, typed as the manual shows it", async () => {
  const expected = generate(tool, ["--chat", "--prompt", QUESTION]);
  const reply = await curl("/v1/chat/completions", ...AUTHORIZED, ...JSON_BODY, chat_body({ digest: true }));
  assert.equal(reply.status, 200);
  const {
    choices: [choice],
  } = JSON.parse(reply.body);
  assert.deepEqual([choice.message.content, choice.digest], [expected.text, expected.digest]);
});

test("curl -N shows a stream line by line, to [DONE]", async () => {
  const reply = await curl(
    "/v1/chat/completions",
    "-N",
    ...AUTHORIZED,
    ...JSON_BODY,
    chat_body({ stream: true, digest: true }),
  );
  assert.deepEqual([reply.status, reply.type], [200, "text/event-stream; charset=utf-8"]);
  const events = reply.body.split("\n\n");
  assert.equal(events.pop(), "");
  assert.equal(events.pop(), "data: [DONE]");
  const chunks = events.map((event) => JSON.parse(/^data: (.*)$/.exec(event)[1]));
  const expected = generate(tool, ["--chat", "--prompt", QUESTION]);
  assert.equal(chunks.map(({ choices: [choice] }) => choice.delta.content ?? "").join(""), expected.text);
  assert.equal(chunks.at(-1).choices[0].digest, expected.digest);
});

test("events come one by one while the answer is computed, and Ctrl-C gives it up", async () => {
  const body = chat_body({ stream: true, ignore_eos: true, max_tokens: 900 });
  const child = spawn("curl", ["-sS", "-N", ...AUTHORIZED, ...JSON_BODY, body, `${shared.url}/v1/chat/completions`]);
  let seen = "";
  for await (const part of child.stdout) {
    seen += part;
    if (seen.split("\n\n").length > 5) break;
  }
  child.kill("SIGINT");
  assert.doesNotMatch(seen, /\[DONE\]/);
  await until_idle(shared.url, shared.headers);
});

test("tokenize and detokenize are each other's inverse", async () => {
  const { body } = await curl(
    "/tokenize",
    ...AUTHORIZED,
    ...JSON_BODY,
    JSON.stringify({ prompt: QUESTION, add_special_tokens: false }),
  );
  const { tokens, count, max_model_len } = JSON.parse(body);
  assert.deepEqual([count, max_model_len], [tokens.length, 1024]);
  const back = await curl("/detokenize", ...AUTHORIZED, ...JSON_BODY, JSON.stringify({ tokens }));
  assert.equal(JSON.parse(back.body).prompt, QUESTION);
  const chat = await curl("/tokenize", ...AUTHORIZED, ...JSON_BODY, JSON.stringify({ messages: user_says(QUESTION) }));
  assert.deepEqual(
    JSON.parse(chat.body).tokens,
    generate(tool, ["--chat", "--prompt", QUESTION, "--max-tokens", "1"]).prompt_tokens,
  );
});

for (const [name, status, path, ...options] of [
  ["no key", 401, "/v1/models"],
  ["another address", 404, "/v1/nothing", ...AUTHORIZED],
  ["GET where POST belongs", 405, "/v1/chat/completions", ...AUTHORIZED],
  ["a method that nobody knows", 405, "/v1/models", "-X", "DELETE", ...AUTHORIZED],
  ["a form, which is what -d sends without a header", 415, "/v1/chat/completions", ...AUTHORIZED, "-d", chat_body({})],
  ["JSON that ends too early", 400, "/v1/chat/completions", ...AUTHORIZED, ...JSON_BODY, '{"messages": ['],
]) {
  test(`${name} is an error object with status ${status}`, async () => {
    const reply = await curl(path, ...options);
    assert.deepEqual([reply.status, reply.type], [status, "application/json"]);
    const { error } = JSON.parse(reply.body);
    assert.deepEqual(Object.keys(error), ["message", "type", "param", "code"]);
    assert.ok(error.message.length > 10);
  });
}
