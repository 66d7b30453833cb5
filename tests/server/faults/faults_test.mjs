// Calls that fail, a few of each kind; as many as wanted with POINTS, which is how many of each phase and kind fail.
// Usage: node faults_test.mjs TOOL LIBRARY [POINTS]
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { complaint, faults_for, run_with_fault, run_with_hanging_disk, spread, sweep } from "./faults.mjs";

const [tool, library, points] = process.argv.slice(2);
const programs = { tool, library };
let calm;

before(async () => {
  calm = await run_with_fault(programs, "start malloc 1 0");
});
const expected = () => calm.answers[0];

test("without a fault there is nothing to complain about, and calls of every kind are counted", () => {
  assert.equal(complaint("start", calm, expected()), undefined);
  assert.match(expected(), /^tree-1:[0-9a-f]{64}$/);
  for (const kind of ["start malloc", "start read", "start thread", "serve malloc", "serve send", "serve accept"])
    assert.ok(calm.counts[kind] > 0, kind);
});

test("a fault happens, and is told", async () => {
  const result = await run_with_fault(programs, "start thread 1 1");
  assert.equal(result.counts.failed, 1);
  assert.equal(result.status, 1, result.stderr);
  assert.equal(complaint("start", result, expected()), undefined);
});

test("whatever fails, the server says so and ends, or goes on", { timeout: 24 * 3600_000 }, async () => {
  const faults = faults_for(calm.counts, Number(points ?? 3));
  const tell = (fault, said) => {
    if (said) console.log(`# ${fault}: ${said}`);
  };
  const { wrong, met } = await sweep(programs, faults, expected(), 2, tell);
  console.log(`# ${faults.length} faults, ${met} of them met`);
  assert.deepEqual(wrong, []);
  assert.ok(met > faults.length / 2, "most calls that should fail are made");
});

test("a disk that hangs holds up the receipts alone, and not the end", { timeout: 120_000 }, async () => {
  const { status, stderr, receipt, answers } = await run_with_hanging_disk(programs);
  assert.deepEqual(answers, Array(3).fill(expected()), "others are answered");
  assert.equal(receipt, "none");
  assert.equal(status, 1);
  assert.match(stderr, /what still waits, for a disk or for a pass, is given up/);
});

test("an end by a signal, a hang, silence, and a wrong answer are complaints", () => {
  const good = { ...calm, counts: {} };
  assert.match(complaint("serve", { ...good, signal: "SIGABRT", status: null }, expected()), /SIGABRT/);
  assert.match(complaint("serve", { ...good, hang: "hangs: the end" }, expected()), /hangs/);
  assert.match(complaint("serve", good, "tree-1:0"), /wrong answer/);
  assert.match(complaint("serve", { ...good, answers: [undefined, expected()] }, expected()), /does not answer/);
  assert.match(complaint("serve", { ...good, status: 1 }, expected()), /status 1/);
  assert.match(complaint("start", { ...good, answers: [], status: 1, stderr: "" }, expected()), /does not say/);
});

test("numbers are spread from the first to the last", () => {
  assert.deepEqual(spread(3, 5), [1, 2, 3]);
  assert.deepEqual(spread(100, 4), [1, 34, 67, 100]);
  assert.deepEqual(spread(0, 4), []);
});
