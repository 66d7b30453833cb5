// `reprofuse serve` as a process that tests start, ask, kill and look into; and what `reprofuse generate` says of the
// same question.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import { request } from "./http.mjs";

const START_MS = 60_000;
const BETWEEN_LOOKS_MS = 20;

const running = new Set();

// For the end of a test, however it ends: no server is left behind, and none keeps the test from ending.
export function kill_servers() {
  for (const child of running) child.kill("SIGKILL");
}
process.on("exit", kill_servers);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until_healthy(url, deadline) {
  while ((await request(url, "/health")).status !== 200) {
    if (Date.now() > deadline) throw new Error(`${url} was not ready within ${START_MS} ms`);
    await sleep(BETWEEN_LOOKS_MS);
  }
}

// Where it listens, which is the first thing it says.
function address_told_by(child, ended, told) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address within ${START_MS} ms:\n${told()}`)), START_MS);
    const fail = (error) => {
      clearTimeout(timer);
      reject(error);
    };
    child.stdout.on("data", () => {
      const found = /^listening on (http:\S+)\n/.exec(told());
      if (!found) return;
      clearTimeout(timer);
      resolve(found[1]);
    });
    child.on("error", fail);
    ended.then(({ status }) => fail(new Error(`the server ended with status ${status}:\n${told()}`)));
  });
}

// Starts a server, on a free port unless told otherwise, and waits until it answers. `launcher` is a command that runs
// another one.
export async function start_server(tool, options = [], port = 0, launcher = []) {
  const [program, ...rest] = [...launcher, tool, "serve", "--quiet", "--port", String(port), ...options];
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.on("exit", (status, signal) => resolve({ status, signal })));
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  running.add(child);
  ended.then(() => running.delete(child));
  const kill = (signal) => child.kill(signal);
  const url = await address_told_by(child, ended, () => stdout + stderr);
  await until_healthy(url, Date.now() + START_MS);
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid,
    told: () => stderr,
    ended, // { status, signal }
    kill,
    async stop() {
      kill("SIGTERM");
      return ended;
    },
  };
}

// What the command line answers: text, tokens, digest.
export function generate(tool, options) {
  return JSON.parse(execFileSync(tool, ["generate", "--digest", "--json", ...options], { encoding: "utf8" }));
}

// Memory of a process that is not on disk, in MiB.
export function resident_mebibytes(pid) {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

// The value of a metric in what /metrics tells; of those that have this label, if one is given.
export function metric_in(text, name, label = "") {
  const line = text.split("\n").find((one) => one.startsWith(`reprofuse:${name}{`) && one.includes(label));
  if (line === undefined) throw new Error(`there is no metric ${name} ${label} in ${text}`);
  return Number(line.slice(line.lastIndexOf(" ") + 1));
}

// Waits until no answer is being computed: whoever left has been given up.
export async function until_idle(url, headers = {}, patience_ms = 10_000) {
  const deadline = Date.now() + patience_ms;
  for (;;) {
    const { body } = await request(url, "/metrics", { headers });
    if (metric_in(body, "num_requests_running") + metric_in(body, "num_requests_waiting") === 0) return;
    if (Date.now() > deadline) throw new Error(`answers are still being computed after ${patience_ms} ms`);
    await sleep(BETWEEN_LOOKS_MS);
  }
}
