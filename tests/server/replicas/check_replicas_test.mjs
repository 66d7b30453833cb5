// deploy/check_replicas.py: which servers it lets stand together. Usage: node check_replicas_test.mjs TOOL
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { kill_servers, start_server } from "../support/server.mjs";
import { check_replicas } from "./check_replicas.mjs";
import { KEY } from "./load.mjs";

const [tool] = process.argv.slice(2);
const start = (...options) =>
  start_server(tool, ["--api-key", KEY, "--threads", "1", "--kv-memory", "0.05", ...options]);

let first;
before(async () => {
  first = await start();
});
after(kill_servers);

// Something that answers every request so, until the end of the test.
async function stand_in(t, body) {
  const server = http.createServer((_, response) => response.end(body));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}` };
}
const model_with = (system_fingerprint) =>
  JSON.stringify({ data: [{ id: "arithmetic-7m", system_fingerprint, receipts: false }] });

test("servers that differ in nothing that decides an answer agree", async () => {
  const { status, told } = await check_replicas([first, await start("--max-batch", "2", "--no-prefix-cache")]);
  assert.equal(status, 0, told);
  assert.match(told, /^2 replicas agree$/m);
});

for (const [part, ...options] of [
  ["contract", "--numerics", "exact-1"],
  ["settings", "--date", "2025-01-01"],
  ["name", "--served-model-name", "another"],
])
  test(`another ${part} (${options.join(" ")}) is found`, async () => {
    const other = await start(...options);
    const { status, told } = await check_replicas([first, other]);
    assert.equal(status, 1, told);
    assert.match(told, new RegExp(`^${other.url} differs from ${first.url} in: ${part}$`, "m"));
  });

test("another model and version are found, and a baseline is, though all are the same", async (t) => {
  const one = await stand_in(t, model_with("fma-1-0123456789abcdef-89abcdef-1.0.0"));
  const other = await stand_in(t, model_with("fma-1-fedcba9876543210-89abcdef-1.0.1"));
  const baseline = await stand_in(t, model_with("unpinned-bf16-0123456789abcdef-89abcdef-1.0.0"));
  assert.equal((await check_replicas([one, one])).status, 0);
  const different = await check_replicas([one, other]);
  assert.deepEqual([different.status, /in: model, version$/m.test(different.told)], [1, true]);
  const unpinned = await check_replicas([baseline]);
  assert.deepEqual([unpinned.status, /runs a baseline/.test(unpinned.told)], [1, true]);
});

test("a server that is not there, wants another key or is no server of ours is an error of its own", async (t) => {
  const others = [{ url: "http://127.0.0.1:1" }, await start("--api-key", "k")];
  for (const body of ["", '{"data": []}', model_with("none")]) others.push(await stand_in(t, body));
  for (const other of others) {
    const { status, told } = await check_replicas([first, other], other === others[1] ? "wrong" : KEY);
    assert.equal(status, 2, told);
    assert.match(told, new RegExp(`^${other.url}: no answer that tells: `, "m"));
  }
});
