// `reprofuse serve` with a library that makes one call fail, or some in a row: memory, files, sockets, threads. It must
// end with an error that says what, while it starts, or go on; and whoever is answered has the right answer.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { read_stream, request } from "../support/http.mjs";

const OPTIONS = ["--threads", "1", "--context", "256", "--kv-memory", "0.02", "--max-batch", "4", "--max-rows", "64"];
const QUESTION = { prompt: "Tom has 3 boxes", max_tokens: 12, digest: true };
const COMPLETION = "/v1/completions";
const PATIENCE_MS = 30_000; // for what takes less than a second on an idle machine
const ATTEMPTS = 60; // to be answered again, while calls fail and after that

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const in_time = (promise, what) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`hangs: ${what}`)), PATIENCE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// What says where a server listens may not be written, so that is chosen before.
const free_port = () =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(String(port)));
    });
  });

// A server whose receipts are never written; others ask meanwhile. { status, signal, stderr, receipt, answers }
export async function run_with_hanging_disk({ tool, library }) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "faults-"));
  const key = path.join(folder, "key");
  execFileSync(tool, ["keys", "new", key]);
  const port = await free_port();
  const url = `http://127.0.0.1:${port}`;
  const env = { LD_PRELOAD: library, FAULT: "serve write 1 1 -1", REPROFUSE_KEY: key };
  const options = ["--quiet", "--drain-seconds", "1", "--receipt-dir", folder];
  const child = spawn(tool, ["serve", "--port", port, ...OPTIONS, ...options], { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.on("close", (status, signal) => resolve({ status, signal })));
  let stderr = "";
  child.stderr.on("data", (text) => (stderr += text));
  try {
    const is_ready = () => request(url, "/health").then(({ status }) => status === 200, () => false);
    while (!(await is_ready())) await sleep(10);
    let receipt = "none";
    request(url, COMPLETION, { body: { ...QUESTION, receipt: true } }).then(() => (receipt = "some"), () => {});
    await sleep(500);
    const answers = [];
    for (let i = 0; i < 3; ++i)
      answers.push((await in_time(request(url, COMPLETION, { body: QUESTION }), "an answer")).json().choices[0].digest);
    child.kill("SIGTERM");
    return { ...(await in_time(ended, "the end")), stderr, receipt, answers };
  } finally {
    child.kill("SIGKILL");
    fs.rmSync(folder, { recursive: true });
  }
}

// The digests of an answer at once and of one streamed; none where the server refused, or there was no answer.
async function ask(url) {
  const plain = async () => {
    const reply = await request(url, COMPLETION, { body: QUESTION });
    return reply.status === 200 ? reply.json().choices[0].digest : undefined;
  };
  const streamed = async () => (await read_stream(url, COMPLETION, QUESTION)).at(-1).choices[0].digest;
  return Promise.all([plain, streamed].map((one) => in_time(one().catch(() => undefined), "an answer")));
}

// Starts a server with this fault, asks, and stops it. { status, signal, stderr, answers, counts, failed, hang }
export async function run_with_fault({ tool, library }, fault) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "faults-"));
  const counts = path.join(folder, "counts");
  const env = { LD_PRELOAD: library, FAULT: fault, FAULT_COUNTS: counts };
  const port = await free_port();
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(tool, ["serve", "--port", port, ...OPTIONS], { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.on("close", (status, signal) => resolve({ status, signal })));
  const result = { stderr: "", answers: [], counts: {} };
  child.stdout.resume();
  child.stderr.on("data", (text) => (result.stderr += text));
  let is_over = false;
  ended.then(() => (is_over = true));
  try {
    const is_ready = () => request(url, "/health").then(({ status }) => status === 200, () => false);
    const starts = async () => {
      while (!is_over && !(await is_ready())) await sleep(10);
    };
    await in_time(starts(), "the start");
    for (let i = 0; !is_over && i < ATTEMPTS; ++i) {
      const answers = await ask(url);
      result.answers.push(...answers);
      if (answers.every((digest) => digest !== undefined)) break;
      await sleep(10);
    }
    child.kill("SIGTERM");
    Object.assign(result, await in_time(ended, "the end"));
  } catch (error) {
    result.hang = error.message;
    child.kill("SIGKILL");
    await ended;
  }
  for (const line of fs.existsSync(counts) ? fs.readFileSync(counts, "utf8").trim().split("\n") : []) {
    const [, name, number] = /^(.*) (\d+)$/.exec(line);
    result.counts[name] = Number(number);
  }
  fs.rmSync(folder, { recursive: true });
  return result;
}

// What is wrong with how a server met a fault; nothing if it is as it should be.
export function complaint(phase, result, expected) {
  const { status, signal, stderr, answers, hang } = result;
  if (hang) return hang;
  if (signal) return `ended by ${signal}: ${stderr.slice(-300)}`;
  if (answers.some((digest) => digest !== undefined && digest !== expected)) return `a wrong answer: ${answers}`;
  const is_answering = answers.length > 0 && answers.slice(-2).every((digest) => digest !== undefined);
  if (phase === "start" && status === 1 && !is_answering && answers.length === 0)
    return /\nreprofuse: .{10}|^reprofuse: .{10}/.test(stderr) ? undefined : `it does not say what failed: ${stderr}`;
  // Files of the tokenizer that cannot be read are told, and texts refused.
  if (phase === "start" && /\nwarning: texts and chats are refused.* cannot be (opened|examined|read)/.test(stderr)) return undefined;
  if (!is_answering) return `it does not answer any more; status ${status}: ${stderr.slice(-300)}`;
  if (status !== 0 && !(phase === "drain" && status === 1)) return `status ${status}: ${stderr.slice(-300)}`;
}

// So many of the numbers 1 to `last`: the first ones, and others spread evenly.
export function spread(last, points) {
  if (last <= points) return Array.from({ length: last }, (_, i) => i + 1);
  const numbers = Array.from({ length: points }, (_, i) => 1 + Math.round((i * (last - 1)) / Math.max(1, points - 1)));
  for (let i = 1; i <= points / 4; ++i) numbers[i - 1] = i;
  return [...new Set(numbers)];
}

export const KINDS = ["malloc", "mmap", "read", "write", "recv", "send", "thread", "accept"];
const EINTR = 4;

// Faults of each phase and kind: one call, some in a row, and one that is interrupted.
export function faults_for(counts, points) {
  const all = [];
  for (const phase of ["start", "serve", "drain"])
    for (const kind of KINDS) {
      const calls = counts[`${phase} ${kind}`] ?? 0;
      for (const number of spread(calls, points)) all.push(`${phase} ${kind} ${number} 1`);
      if (points > 20) {
        for (const number of spread(calls, points / 4)) all.push(`${phase} ${kind} ${number} 20`);
        if (["read", "write", "recv", "send", "accept"].includes(kind))
          for (const number of spread(calls, points / 4)) all.push(`${phase} ${kind} ${number} 1 ${EINTR}`);
      }
    }
  return all;
}

// Complaints about all of them, `at_once` at a time.
export async function sweep(programs, faults, expected, at_once, tell = () => {}) {
  const wrong = [];
  let [next, met] = [0, 0];
  const worker = async () => {
    while (next < faults.length) {
      const fault = faults[next++];
      const result = await run_with_fault(programs, fault);
      if (!(result.counts.failed === 0)) met += 1;
      const said = complaint(fault.split(" ")[0], result, expected);
      if (said) wrong.push(`${fault}: ${said}`);
      tell(fault, said, result);
    }
  };
  await Promise.all(Array.from({ length: at_once }, worker));
  return { wrong, met };
}
