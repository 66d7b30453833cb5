// The end of a server, asked for or not: what was promised is kept, or can be had again.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { open_stream, read_stream, request } from "../support/http.mjs";
import { kill_servers, start_server } from "../support/server.mjs";
import { CHAT, COMPLETION, tool, within } from "./setup.mjs";

after(kill_servers);

const OPTIONS = ["--threads", "1"];
const question = (content) => [{ role: "user", content }];

// Requests of every kind that a client might repeat: the answers are long enough to be caught in the middle.
const REQUESTS = [
  [CHAT, { messages: question("What is 48 + 27?"), ignore_eos: true, max_tokens: 120 }],
  [
    CHAT,
    {
      messages: question("A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?"),
      temperature: 1.5,
      seed: 7,
      ignore_eos: true,
      max_tokens: 120,
    },
  ],
  [
    CHAT,
    {
      messages: question("Tom has 3 boxes of 12 pens."),
      temperature: 0.8,
      top_p: 0.9,
      seed: 1,
      n: 2,
      ignore_eos: true,
      max_tokens: 100,
    },
  ],
  [COMPLETION, { prompt: "Pens in the boxes: 3 x 12 =", logprobs: 3, ignore_eos: true, max_tokens: 120 }],
  [
    COMPLETION,
    {
      prompt: [
        [1019, 84, 437],
        [51, 626, 312],
      ],
      temperature: 1,
      seed: 9,
      ignore_eos: true,
      max_tokens: 100,
    },
  ],
];

// What a stream promises: of each choice the texts and digests, in their order.
function promises_of(chunks) {
  const choices = {};
  for (const {
    choices: [choice],
  } of chunks) {
    if (choice.digest === undefined) continue; // the chunk that opens a choice
    (choices[choice.index] ??= []).push([
      choice.delta?.content ?? choice.text ?? "",
      choice.digest,
      choice.finish_reason,
    ]);
  }
  return choices;
}

const read = async (url, [path, body]) => promises_of(await read_stream(url, path, { ...body, digest: true }));

// Reads streams of all requests until each has brought some tokens; `then` happens; what all of them brought in the
// end.
async function catch_in_the_middle(url, then) {
  const streams = await Promise.all(REQUESTS.map(([path, body]) => open_stream(url, path, { ...body, digest: true })));
  let waiting = streams.length;
  const readings = streams.map(async ({ events }) => {
    const seen = { chunks: [], done: false, error: undefined };
    try {
      for await (const { data } of events) {
        if (data === "[DONE]") seen.done = true;
        else seen.chunks.push(JSON.parse(data));
        if (seen.chunks.length === 8 && --waiting === 0) await then();
      }
    } catch (error) {
      seen.error = error;
    }
    return seen;
  });
  return within(20_000, Promise.all(readings), "the end of all streams");
}

test("kill -9 within streams, a new server on the same port at once: every token sent before comes again", async () => {
  const first = await start_server(tool, OPTIONS);
  const caught = await catch_in_the_middle(first.url, () => first.kill("SIGKILL"));
  assert.equal((await first.ended).signal, "SIGKILL");
  assert.ok(
    caught.every(({ done, error }) => !done && error !== undefined),
    "no client takes a broken answer for a whole one",
  );

  const second = await start_server(tool, OPTIONS, first.port);
  assert.equal(second.port, first.port);
  const [whole, again] = [await Promise.all(REQUESTS.map((one) => read(second.url, one))), []];
  for (const one of REQUESTS) again.push(await read(second.url, one));
  assert.deepEqual(again, whole, "asked together or one by one");
  for (const [i, { chunks }] of caught.entries()) {
    const sent = promises_of(chunks);
    assert.ok(Object.values(sent).flat().length >= 5);
    for (const [index, promised] of Object.entries(sent))
      assert.deepEqual(whole[i][index].slice(0, promised.length), promised);
  }
  assert.equal(
    new Set(whole.flatMap((choices) => Object.values(choices).map((parts) => parts.at(-1)[1]))).size,
    7,
    "the answers differ",
  );
  assert.deepEqual(await second.stop(), { status: 0, signal: null });
});

test("SIGTERM within streams: they are finished, nothing new is taken, and the exit status is 0", async () => {
  const server = await start_server(tool, OPTIONS);
  const expected = await Promise.all(REQUESTS.map((one) => read(server.url, one)));
  const refusals = [];
  const caught = await catch_in_the_middle(server.url, async () => {
    server.kill("SIGTERM");
    while (!server.told().includes("stopping")) await new Promise((resolve) => setTimeout(resolve, 5));
    refusals.push(
      await request(server.url, "/health").then(
        ({ status }) => status,
        ({ code }) => code,
      ),
    );
  });
  assert.deepEqual(await within(10_000, server.ended, "the end of the server"), { status: 0, signal: null });
  for (const [i, { chunks, done, error }] of caught.entries()) {
    assert.deepEqual([done, error], [true, undefined]);
    assert.deepEqual(promises_of(chunks), expected[i]);
  }
  assert.equal(refusals.length, 1);
  assert.ok(["ECONNREFUSED", "ECONNRESET", 503].includes(refusals[0]), `a new client got ${refusals[0]}`);
});

test("SIGTERM with more under way than the time allows breaks it off, and the status says so", async () => {
  const server = await start_server(tool, [...OPTIONS, "--drain-seconds", "0"]);
  const { events } = await open_stream(server.url, COMPLETION, {
    prompt: "Answer:",
    ignore_eos: true,
    max_tokens: 900,
  });
  const data = [];
  for await (const event of events) {
    data.push(event.data);
    if (data.length === 3) server.kill("SIGTERM");
  }
  assert.equal(JSON.parse(data.at(-1)).error.code, "stopped", "the last event says that the answer is not whole");
  assert.ok(!data.includes("[DONE]"));
  assert.deepEqual(await within(10_000, server.ended, "the end of the server"), { status: 1, signal: null });
});

test("SIGTERM while receipts are verified: each has its verdict or is told that the server stops", async () => {
  const server = await start_server(tool, OPTIONS);
  const asked = { prompt: "Answer:", ignore_eos: true, max_tokens: 900, digest: true, return_token_ids: true };
  const saved = (await request(server.url, COMPLETION, { body: asked })).json();
  const verify = () =>
    request(server.url, "/v1/receipts/verify", { body: { receipt: { ...saved, request: asked } } }).then(
      ({ status, json }) => (status === 200 ? json().verdict : status),
      ({ code }) => code,
    );
  const alone = await verify();
  assert.match(String(alone), /^equal/);
  const verdicts = Array.from({ length: 12 }, verify);
  await new Promise((resolve) => setTimeout(resolve, 20));
  server.kill("SIGTERM");
  for (const verdict of await within(30_000, Promise.all(verdicts), "the verdicts"))
    assert.ok([alone, 503, "ECONNREFUSED", "ECONNRESET"].includes(verdict), `a client got ${verdict}`);
  assert.deepEqual(await within(30_000, server.ended, "the end of the server"), { status: 0, signal: null });
});

test("a second server on the port of the first is an error that says so, and the first goes on", async () => {
  const server = await start_server(tool, OPTIONS);
  await assert.rejects(start_server(tool, OPTIONS, server.port), /status [1-9][^]*Address already in use/);
  assert.equal((await request(server.url, "/health")).status, 200);
  assert.deepEqual(await server.stop(), { status: 0, signal: null });
});
