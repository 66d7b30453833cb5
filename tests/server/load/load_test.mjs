// A short load, and that the checks of a long one can fail. Usage: node load_test.mjs TOOL
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { kill_servers, start_server } from "../support/server.mjs";
import { answers_alone, complaints, growth_of, percentile, run_load } from "./load.mjs";
import { requests } from "./requests.mjs";

const [tool] = process.argv.slice(2);
const OPTIONS = { streams: 8, seconds: 3, warm_up_seconds: 1, sample_ms: 100 };
const ROOM_MIB = 64; // three seconds tell little of leaks
let server;
let expected;

before(async () => {
  server = await start_server(tool, ["--threads", "1", "--kv-memory", "0.05"]);
  expected = await answers_alone(server.url, requests());
});
after(kill_servers);

test("eight streams at once get the answers that each request has alone", async () => {
  const report = await run_load(server.url, requests(), expected, { ...OPTIONS, pid: server.pid });
  assert.deepEqual(complaints(report, ROOM_MIB), []);
  assert.ok(report.answers >= requests().length && report.tokens > report.answers);
  assert.ok(report.memory.samples >= 3 && report.inter_token_latency_ms.p50 <= report.inter_token_latency_ms.p99);
});

test("an answer that differs in one bit is a failure", async () => {
  const changed = expected.map((digest, i) => (i === 1 ? (digest[0] === "0" ? "1" : "0") + digest.slice(1) : digest));
  const report = await run_load(server.url, requests(), changed, { ...OPTIONS, seconds: 0.5 });
  assert.match(complaints(report, ROOM_MIB).join(), /request 1: not the answer that the request has alone/);
});

test("a request that is refused is a failure, and so is a server that is not there", async () => {
  const [{ path, body }] = requests();
  const refused = await run_load(server.url, [{ path, body: { ...body, temperature: -1 } }], [expected[0]], {
    ...OPTIONS,
    seconds: 0.05,
  });
  assert.match(complaints(refused, ROOM_MIB).join(), /request 0: status 400/);
  const nobody = await run_load("http://127.0.0.1:1", requests(), expected, { ...OPTIONS, seconds: 0.05 });
  assert.match(complaints(nobody, ROOM_MIB).join(), /ECONNREFUSED/);
});

test("memory that grows is a complaint, and memory that goes up and down is none", () => {
  const report = {
    failures: [],
    counts: [1],
    memory: { growth: growth_of([100, 101, 100, 102, 103, 104, 106, 107, 108, 110]) },
  };
  assert.match(complaints(report, 8).join(), /memory grew by 10 MiB/);
  assert.deepEqual(complaints({ ...report, memory: { growth: growth_of([100, 120, 90, 100]) } }, 8), []);
  assert.match(complaints({ ...report, memory: { growth: NaN } }, 8).join(), /memory grew/);
});

test("percentiles are values that were measured", () => {
  const sorted = Array.from({ length: 200 }, (_, i) => i + 1);
  assert.deepEqual(
    [0, 0.5, 0.99, 1].map((part) => percentile(sorted, part)),
    [1, 100, 198, 200],
  );
});
