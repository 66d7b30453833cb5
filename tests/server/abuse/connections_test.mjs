// Clients that are slow, half gone, too many, or do not read: others are served as before.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open_stream, request } from "../support/http.mjs";
import { metric_in, until_idle } from "../support/server.mjs";
import {
  assert_error,
  CHAT,
  COMPLETION,
  connect,
  normal_digest,
  parse_answer,
  post_text,
  shared_server,
  sleep,
  with_server,
  within,
} from "./setup.mjs";

const PLACES = 200;
const shared = shared_server(["--max-connections", String(PLACES), "--max-connections-per-client", String(PLACES)]);
const PLACES_FOR_ALL = ["--max-connections", "--max-connections-per-client", "--max-queue", "--max-answers-per-client"]
  .flatMap((option) => [option, "1100"]);
const LONG = { prompt: "Pens in the boxes:", max_tokens: 900, ignore_eos: true };
const SMALL = JSON.stringify({ prompt: "Answer:", max_tokens: 1, digest: true });

const open_all = async (count, port) => {
  const all = Array.from({ length: count }, () => connect(port));
  await Promise.all(all.map(({ opened }) => within(8_000, opened, "a connection")));
  return all;
};

const answers_of = async (all) =>
  (await within(15_000, Promise.all(all.map(({ closed }) => closed)), `${all.length} answers`)).map(parse_answer);

async function until(is_so, what) {
  for (let i = 0; i < 500; ++i) {
    if (await is_so()) return;
    await sleep(10);
  }
  assert.fail(`${what}: not within 5 s`);
}

const until_others_left = () =>
  until(async () => {
    const reply = await request(shared.url, "/metrics");
    return reply.status === 200 && metric_in(reply.body, "num_connections") === 1; // the one that asks
  }, "the end of all other connections");

const given_up = async () =>
  metric_in((await request(shared.url, "/metrics")).body, "request_success_total", 'finished_reason="abort"');

// Answers that the server gave up while this ran, waited for until there are as many.
async function expect_given_up(count, run) {
  const before = await given_up();
  await run();
  await until(async () => (await given_up()) >= before + count, `${count} answers that are given up`);
}

// Sends one byte a second of a request that has no end, until the server has enough of it.
function drip(connection, text) {
  let at = 0;
  const timer = setInterval(() => {
    if (at < text.length) connection.socket.write(text[at++]);
  }, 1_000);
  connection.closed.then(() => clearInterval(timer));
}

test("slow-loris: a header that comes byte by byte holds up nobody, and is ended with a 408", async () => {
  const expected = await normal_digest(shared.url);
  const slow = await open_all(PLACES - 20, shared.port);
  for (const connection of slow) drip(connection, `GET /health HTTP/1.1\r\nX: ${"a".repeat(100)}`);
  for (let i = 0; i < 5; ++i) assert.equal(await normal_digest(shared.url), expected);
  const answers = await within(15_000, Promise.all(slow.map(({ closed }) => closed)), "the end of all slow ones");
  for (const answer of answers) assert_error(parse_answer(answer), 408, "timeout");
});

test("a connection too many is told so at once, and a place that becomes free is used", async () => {
  const all = await open_all(PLACES, shared.port);
  for (const { socket } of all) socket.write(post_text(COMPLETION, JSON.stringify({ ...LONG, stream: true })));
  await Promise.all(all.map(({ socket }) => new Promise((resolve) => socket.once("data", resolve))));
  const reply = await request(shared.url, "/v1/models");
  assert_error(reply, 503, "too_many_connections");
  assert.equal(reply.headers["retry-after"], "1");
  assert.equal((await request(shared.url, "/health")).status, 200, "monitoring is answered");
  all[0].socket.destroy();
  await until(async () => (await request(shared.url, "/v1/models")).status === 200, "a place that became free");
});

test("1,000 connections at once: those within the limit are served, the others told why not", async () => {
  await until_others_left();
  const all = await open_all(1_000, shared.port);
  for (const { socket } of all) socket.write(post_text(COMPLETION, SMALL, { Connection: "close" }));
  const answers = await answers_of(all);
  const served = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status !== 200);
  for (const answer of refused) assert_error(answer, 503, "too_many_connections");
  assert.ok(served.length >= PLACES && served.length < 1_000, `${served.length} of 1,000 were served`);
  assert.equal(new Set(served.map(({ body }) => JSON.parse(body).choices[0].digest)).size, 1);
  await until_others_left();
});

test("1,000 connections at once on a server that has places for them are all served alike", () =>
  with_server(PLACES_FOR_ALL, async ({ port }) => {
    const all = await open_all(1_000, port);
    for (const { socket } of all) socket.write(post_text(COMPLETION, SMALL, { Connection: "close" }));
    const answers = await answers_of(all);
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    assert.equal(new Set(answers.map(({ body }) => JSON.parse(body).choices[0].digest)).size, 1);
  }));

test("a client that closes its side before its answer is given up", async () => {
  await expect_given_up(1, async () => {
    const connection = connect(shared.port);
    connection.socket.end(post_text(COMPLETION, JSON.stringify(LONG)));
    await within(5_000, connection.closed, "the end of the connection");
  });
});

test("a client that closes its side within a header or a body is told, within a first line forgotten", async () => {
  const half = async (bytes) => {
    const connection = connect(shared.port);
    connection.socket.end(bytes);
    return within(5_000, connection.closed, "the end of the connection");
  };
  assert.equal(await half("GET /hea"), "");
  assert_error(parse_answer(await half("GET /health HTTP/1.1\r\nHo")), 400, "bad_request");
  assert_error(parse_answer(await half(post_text(COMPLETION, SMALL).subarray(0, -5))), 400, "bad_framing");
});

test("clients that vanish within a header, a body, an answer and a stream are forgotten", async () => {
  const beginnings = [
    "",
    "GET",
    "GET /health HTTP/1.1\r\nHo",
    post_text(COMPLETION, SMALL).subarray(0, -5),
    post_text(COMPLETION, JSON.stringify(LONG)),
    post_text(COMPLETION, JSON.stringify({ ...LONG, stream: true })),
  ];
  await expect_given_up(8, async () => {
    const all = await open_all(beginnings.length * 4, shared.port);
    all.forEach(({ socket }, i) => socket.write(beginnings[i % beginnings.length]));
    const streams = all.filter((_, i) => i % beginnings.length === 5);
    await within(
      8_000,
      Promise.all(streams.map(({ socket }) => new Promise((resolve) => socket.once("data", resolve)))),
      "streams",
    );
    all.forEach(({ socket }, i) => (i % 4 < 2 ? socket.destroy() : socket.resetAndDestroy()));
  });
  await until_others_left();
});

test("readers of streams that stop reading hold up nobody, and are forgotten when they leave", async () => {
  const expected = await normal_digest(shared.url);
  // Each choice begins with the echo of a long prompt and its log-probabilities: megabytes, more than sockets hold.
  const body = { prompt: Array(900).fill(84), n: 16, max_tokens: 1, echo: true, logprobs: 20 };
  const stalled = await Promise.all([1, 2, 3].map(() => open_stream(shared.url, COMPLETION, body)));
  for (const { response } of stalled) response.pause();
  await until_idle(shared.url);
  for (let i = 0; i < 3; ++i) assert.equal(await normal_digest(shared.url), expected);
  const connections = metric_in((await request(shared.url, "/metrics")).body, "num_connections");
  assert.ok(connections > stalled.length, `${connections} connections: the streams were taken whole`);
  for (const { response } of stalled) response.destroy();
  await until_others_left();
});

test("a full queue is a 429 that says when to come again", () =>
  with_server(["--max-queue", "2"], async ({ url }) => {
    const streams = await Promise.all([1, 2].map(() => open_stream(url, COMPLETION, LONG)));
    for (const { events } of streams) await events.next();
    const reply = await request(url, CHAT, { body: { messages: [{ role: "user", content: "Hello" }] } });
    assert_error(reply, 429, "queue_full");
    assert.equal(reply.headers["retry-after"], "1");
    for (const { response } of streams) response.destroy();
    await until_idle(url);
    await normal_digest(url);
  }));
