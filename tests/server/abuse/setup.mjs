// What every test here is given: node FILE TOOL, where TOOL is the reprofuse binary. Whatever a test does to the
// server, the next request must be answered as if nothing had happened.
import assert from "node:assert/strict";
import net from "node:net";
import { after, afterEach, before } from "node:test";
import { request } from "../support/http.mjs";
import { kill_servers, start_server, until_idle } from "../support/server.mjs";

export const [tool] = process.argv.slice(2);
export const CHAT = "/v1/chat/completions";
export const COMPLETION = "/v1/completions";

const NORMAL = { messages: [{ role: "user", content: "What is 48 + 27?" }], digest: true };

const open_sockets = new Set();

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function normal_digest(url) {
  const reply = await request(url, CHAT, { body: NORMAL });
  assert.equal(reply.status, 200, reply.body);
  return reply.json().choices[0].digest;
}

// Connections that were closed may still have their places.
async function until_served(url) {
  const deadline = Date.now() + 5_000;
  while ((await request(url, "/v1/models")).status !== 200 && Date.now() < deadline) await sleep(10);
}

// One server for a file's tests. After each of them, with its connections closed, it must be alive and idle, and give
// the digest that it gave before.
export function shared_server(options = []) {
  const shared = {};
  let expected;
  before(async () => {
    Object.assign(shared, await start_server(tool, ["--threads", "1", ...options]));
    expected = await normal_digest(shared.url);
  });
  afterEach(async () => {
    for (const socket of open_sockets) socket.destroy();
    await until_served(shared.url);
    assert.equal(await normal_digest(shared.url), expected);
    await until_idle(shared.url);
  });
  after(async () => {
    const end = await within(10_000, shared.stop(), "the end of the server").finally(kill_servers);
    assert.deepEqual(end, { status: 0, signal: null });
  });
  return shared;
}

// A server for one test, which must end as it should.
export async function with_server(options, run) {
  const server = await start_server(tool, ["--threads", "1", ...options]);
  await run(server);
  assert.deepEqual(await within(10_000, server.stop(), "the end of the server"), { status: 0, signal: null });
}

// A connection as bytes. `received()` is what came so far; `closed` resolves to all of it when the server has ended.
export function connect(port) {
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  open_sockets.add(socket);
  socket.on("close", () => open_sockets.delete(socket));
  const parts = [];
  socket.on("data", (part) => parts.push(part));
  const received = () => Buffer.concat(parts).toString("utf8");
  const closed = new Promise((resolve) => {
    socket.on("end", () => {
      socket.end();
      resolve(received());
    });
    socket.on("error", () => resolve(received()));
    socket.on("close", () => resolve(received()));
  });
  const opened = new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  opened.catch(() => {});
  return { socket, received, closed, opened };
}

export async function within(ms, promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// Sends these bytes, waits for the server to end the connection, and returns what it said.
export async function say(port, bytes) {
  const connection = connect(port);
  connection.socket.write(bytes);
  return within(8_000, connection.closed, "the server ends the connection");
}

// { status, body } of the first answer in what was received.
export function parse_answer(text) {
  const found = /^HTTP\/1\.1 (\d{3})[^\r\n]*\r\n(.*?)\r\n\r\n/s.exec(text);
  assert.ok(found, `not an answer: ${text.slice(0, 200)}`);
  const length = /^content-length: (\d+)\r?$/im.exec(found[2]);
  const body = text.slice(found[0].length, length ? found[0].length + Number(length[1]) : undefined);
  return { status: Number(found[1]), body, rest: text.slice(found[0].length + body.length) };
}

// An error in OpenAI's form, with this status and code.
export function assert_error({ status, body }, expected_status, expected_code) {
  assert.equal(status, expected_status, body);
  const { error } = JSON.parse(body);
  assert.deepEqual(Object.keys(error), ["message", "type", "param", "code"]);
  assert.ok(error.message.length > 10, body);
  if (expected_code !== undefined) assert.equal(error.code, expected_code, body);
}

// A POST, written out.
export function post_text(path, body, headers = {}) {
  const given = {
    Host: "127.0.0.1",
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ...headers,
  };
  const lines = Object.entries(given)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), Buffer.from(body)]);
}
