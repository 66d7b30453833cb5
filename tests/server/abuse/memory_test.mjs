// A server that may have little more memory than its model needs (ulimit -v, a control group), and clients that want all
// of it.
import assert from "node:assert/strict";
import fs from "node:fs";
import { after, test } from "node:test";
import { request } from "../support/http.mjs";
import { kill_servers, start_server, until_idle } from "../support/server.mjs";
import { COMPLETION, connect, post_text, sleep, tool, within } from "./setup.mjs";

const OPTIONS = ["--threads", "1", "--kv-memory", "0.02", "--max-batch", "16"];
const QUESTION = { prompt: "Tom has 3 boxes", max_tokens: 12, digest: true };
const STEP_MIB = 16;

const start_after = (command) => start_server(tool, OPTIONS, 0, ["/bin/sh", "-c", `${command} && exec "$@"`, "sh"]);

after(kill_servers);

const of_16_mb = (text) => text.repeat(Math.floor(16_000_000 / text.length));
const ATTACKS = {
  "empty stop strings": [16, () => `{"prompt":"a","stop":[${of_16_mb('"",')}""]}`],
  "token ids": [16, () => `{"prompt":[${of_16_mb("84,")}84]}`],
  "short texts": [16, () => `{"prompt":"a","metadata":{"a":[${of_16_mb('"b",')}"b"]}}`],
  "messages": [16, () => `{"messages":[${'{"role":"user","content":"a"},'.repeat(16_000)}{}],"prompt":"a"}`],
  "one long text": [16, () => JSON.stringify({ prompt: of_16_mb("word ") })],
  "many connections": [220, () => JSON.stringify({ ...QUESTION, max_tokens: 100 })],
  "many choices": [8, () => JSON.stringify({ ...QUESTION, n: 128, max_tokens: 200, ignore_eos: true })],
  "likelihoods of prompts": [
    16,
    () => JSON.stringify({ prompt: Array(900).fill(84), n: 20, max_tokens: 1, echo: true, logprobs: 20 }),
  ],
  "likelihoods of answers": [
    16,
    () => JSON.stringify({ prompt: "a", n: 16, max_tokens: 700, logprobs: 20, ignore_eos: true, temperature: 1 }),
  ],
};

// One request of so many bytes, some of which fail where memory ends: at any size, wherever that is.
const CHAT = "/v1/chat/completions";
const VERIFY = "/v1/receipts/verify";
const numbers = (bytes) => `[${"1,".repeat(bytes / 2)}1]`;
const message = (bytes) => `{"role":"user","content":"${"a".repeat(Math.max(1, bytes / 16_000))}"},`;
const messages = (bytes) => `[${message(bytes).repeat(Math.min(15_000, bytes / 40))}{"role":"user","content":"a"}]`;
const call = { id: "x", type: "function", function: { name: "f", arguments: '{"a":[1,2,3,4,5,6,7,8,9]}' } };
const calls = (bytes) => `[${`${JSON.stringify(call)},`.repeat(Math.min(15_000, bytes / 120))}${JSON.stringify(call)}]`;
const keys = (bytes) => `{${Array.from({ length: bytes / 16 }, (_, i) => `"${i}":0`).join()}}`;
const envelope = (payload) =>
  JSON.stringify({
    payload: Buffer.from(payload).toString("base64"),
    payloadType: "application/vnd.in-toto+json",
    signatures: [{ keyid: "", sig: "" }],
  });
const SIZED = {
  "numbers where a string goes": [COMPLETION, (bytes) => `{"prompt":"a","stop":${numbers(bytes)}}`],
  "lists where a number goes": [COMPLETION, (bytes) => `{"temperature":[${`${numbers(20_000)},`.repeat(bytes / 20_000)}1]}`],
  "an unknown field": [COMPLETION, (bytes) => `{"prompt":"a","x":[${`${numbers(20_000)},`.repeat(bytes / 20_000)}1]}`],
  "messages": [CHAT, (bytes) => `{"messages":${messages(bytes)}}`],
  "plain messages": [CHAT, (bytes) => `{"special_tokens_in_content":"plain","messages":${messages(bytes)}}`],
  "calls of tools": [CHAT, (bytes) => `{"messages":[{"role":"assistant","tool_calls":${calls(bytes)}}]}`],
  "variables": [CHAT, (bytes) => `{"messages":${messages(40)},"chat_template_kwargs":{"x":${numbers(bytes)}}}`],
  "a receipt of keys": [VERIFY, (bytes) => `{"receipt":${envelope(keys(bytes))}}`],
  "a receipt of numbers": [VERIFY, (bytes) => `{"receipt":${envelope(numbers(bytes))}}`],
  "an opening": [VERIFY, (bytes) => `{"receipt":{},"opening":{"salt":"a","prompt_tokens":${numbers(bytes)}}}`],
};
const SIZES = Array.from({ length: 7 }, (_, i) => Math.floor(200_000 * 1.8 ** i)); // to 7 MB

async function sweep(server, where) {
  for (const [name, [path, body]] of Object.entries(SIZED))
    for (const bytes of SIZES) {
      const reply = request(server.url, path, { body: body(bytes) }).catch(() => undefined);
      const end = await within(30_000, Promise.race([reply.then(() => undefined), server.ended]), `a reply to ${name}`);
      assert.equal(end, undefined, `${name} of ${bytes} bytes, ${where}: ${JSON.stringify(end)} ${server.told()}`);
    }
}

async function attack(port, clients, body) {
  const bytes = post_text(COMPLETION, body);
  const all = Array.from({ length: clients }, () => connect(port));
  for (const { socket } of all) socket.write(bytes);
  await Promise.race([Promise.all(all.map(({ closed }) => closed)), sleep(1_500)]);
  for (const { socket } of all) socket.destroy();
}

// The answer, asked for until there is memory for it.
async function digest_of(url) {
  for (;;) {
    const reply = await request(url, COMPLETION, { body: QUESTION }).catch(() => undefined);
    if (reply?.status === 200) return reply.json().choices[0].digest;
    await sleep(20);
  }
}

// A server with the least memory, in steps, in which it starts and answers. Whether it starts depends on where threads
// find room for their stacks, so not every time alike.
async function start_with_least(first_mebibytes) {
  for (let mebibytes = first_mebibytes; ; mebibytes += STEP_MIB) {
    const server = await start_after(`ulimit -v ${mebibytes * 1024}`).catch((error) => {
      assert.match(error.message, /status 1:[^]*reprofuse: .*(memory|threads)/);
    });
    if (!server) continue;
    const reply = await request(server.url, COMPLETION, { body: QUESTION });
    if (reply.status === 200) return { server, mebibytes, expected: reply.json().choices[0].digest };
    await server.stop();
  }
}

async function withstand(server, expected, where) {
  await sweep(server, where);
  for (const [name, [clients, body]] of Object.entries(ATTACKS)) {
    await attack(server.port, clients, body());
    const digest = await within(60_000, Promise.race([digest_of(server.url), server.ended]), `an answer after ${name}`);
    assert.equal(digest, expected, `${name}, ${where}: ${JSON.stringify(digest)} ${server.told()}`);
  }
  await until_idle(server.url);
  assert.deepEqual(await within(10_000, server.stop(), "the end of the server"), { status: 0, signal: null });
}

test("no client ends a server that has little more memory than its model needs", { timeout: 250_000 }, async () => {
  let least = 160;
  for (const more of [0, 4 * STEP_MIB]) {
    const { server, mebibytes, expected } = await start_with_least(least + more);
    console.log(`# with ${mebibytes} MiB`);
    least = mebibytes;
    await withstand(server, expected, `with ${mebibytes} MiB`);
  }
});

// A control group with so much memory: its folder, or why there can be none.
function make_group(mebibytes) {
  let why = "there are no control groups";
  for (const [root, limit] of [
    ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"],
    ["/sys/fs/cgroup", "memory.max"],
  ])
    try {
      const folder = `${root}/reprofuse_test_${process.pid}`;
      fs.mkdirSync(folder);
      after(() => fs.rmdirSync(folder));
      if (!fs.existsSync(`${folder}/${limit}`)) continue; // of another version, or not for memory
      fs.writeFileSync(`${folder}/${limit}`, String(mebibytes * 1024 * 1024));
      return { folder };
    } catch (error) {
      why = error.message;
    }
  return { why };
}

// Where memory ends there, the system ends a process, unless it has set itself a limit before.
test("no client ends a server in a control group of little memory", { timeout: 250_000 }, async (context) => {
  const { folder, why } = make_group(320);
  if (!folder) return context.skip(why);
  const server = await start_after(`echo $$ > ${folder}/cgroup.procs`);
  await withstand(server, await digest_of(server.url), "in a control group");
});
