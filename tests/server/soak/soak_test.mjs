// A soak of half a minute; with MINUTES one of 64 streams for as long, in several rounds, which also asks how slow good clients
// become; with ATTACK, by that one alone. Usage: node soak_test.mjs TOOL [MINUTES [ATTACK]]
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { kill_servers, start_server } from "../support/server.mjs";
import { ATTACKS, BAD_KEYS, GOOD_KEYS } from "./attack.mjs";
import { complaints, soak } from "./soak.mjs";

const [tool, minutes, only] = process.argv.slice(2);
const names = Object.keys(ATTACKS).filter((name) => only === undefined || name === only);
const attacks = names.length;
const ROUNDS = 2;
const OPTIONS =
  minutes === undefined
    ? { streams: 4, attackers: 32, rounds: 1, parts: 3, seconds: 0.7, few_refused: 1, max_growth_mebibytes: 256 }
    : {
        streams: 64,
        attackers: 300, // more than there are places
        rounds: ROUNDS,
        parts: 1,
        few_refused: 3,
        seconds: (60 * Number(minutes)) / (ROUNDS * 2 * attacks),
        factor: 3,
        max_growth_mebibytes: 32,
      };

after(kill_servers);

test("good clients are served as they are alone while others misbehave", { timeout: 24 * 3600_000 }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "soak-"));
  after(() => fs.rmSync(folder, { recursive: true }));
  execFileSync(tool, ["keys", "new", path.join(folder, "key")]);
  process.env.REPROFUSE_KEY = path.join(folder, "key");
  const keys = [...GOOD_KEYS, ...BAD_KEYS].flatMap((key) => ["--api-key", key]);
  const receipts = ["--allow-priority", "--receipt-dir", folder];
  const places = ["--max-connections-per-client", "128"];
  const server = await start_server(tool, ["--threads", "1", "--kv-memory", "0.1", ...keys, ...receipts, ...places]);
  const wrong = await soak(server, names, OPTIONS, (line) => console.log(`# ${line}`));
  assert.deepEqual(wrong, []);
  assert.deepEqual(await server.stop(), { status: 0, signal: null });
});

test("a failure, silence, many refusals and a slow server are complaints, and a refusal is none", () => {
  const asked = { factor: 3, few_refused: 3 };
  const calm = { answers: 9, failures: [], time_to_first_token_ms: { p99: 10 } };
  assert.deepEqual(complaints("x", calm, calm, asked), []);
  const refused = (count) => ({ ...calm, failures: Array(count).fill('request 1: status 429: {"error":{}}') });
  assert.deepEqual(complaints("x", refused(3), calm, asked), []);
  assert.match(complaints("x", refused(4), calm, asked).join(), /4 refusals beside 9 answers/);
  assert.match(complaints("x", refused(2), calm, { ...asked, few_refused: 1 }).join(), /2 refusals beside 9 answers/);
  assert.deepEqual(complaints("x", { ...refused(4), answers: 900 }, calm, asked), []);
  const failed = { ...calm, failures: ["request 1: not the answer that the request has alone"] };
  assert.match(complaints("x", failed, calm, asked).join(), /not the answer/);
  assert.match(complaints("x", { ...calm, answers: 0 }, calm, asked).join(), /no good client/);
  const slow = { ...calm, time_to_first_token_ms: { p99: 31 } };
  assert.match(complaints("x", slow, calm, asked).join(), /31 ms, more than 3 times 10/);
  assert.deepEqual(complaints("x", slow, calm, { ...asked, factor: undefined }), []);
});
