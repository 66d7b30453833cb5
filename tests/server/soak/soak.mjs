// Good clients while others misbehave, one kind after the other. Good clients must get the answers that each request has
// alone, none may fail, they may become slower by a factor at most, and the server's memory must come back.
import { spawn } from "node:child_process";
import { once } from "node:events";
import os from "node:os";
import { fileURLToPath } from "node:url";
import { answers_alone, run_load } from "../load/load.mjs";
import { requests } from "../load/requests.mjs";
import { resident_mebibytes, until_idle } from "../support/server.mjs";
import { GOOD_KEYS } from "./attack.mjs";

const headers_of = (client) => ({ Authorization: `Bearer ${GOOD_KEYS[client % GOOD_KEYS.length]}` });
const MAX_REFUSED = 0.02; // of what good clients ask, or few_refused
const BEGIN_MS = 60_000; // that an attack may take to begin
const SCRIPT = fileURLToPath(new URL("attack.mjs", import.meta.url));
const is_refusal = (failure) => /status (429|503): /.test(failure);

// The result of `run`, which begins when the first attacker is connected.
async function under_attack(name, port, clients, run) {
  const attackers = spawn(process.execPath, [SCRIPT, String(port), name, String(clients)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
  });
  os.setPriority(attackers.pid, os.constants.priority.PRIORITY_BELOW_NORMAL); // they should be elsewhere, on machines of their own
  const ended = new Promise((resolve) => attackers.on("exit", (status, signal) => resolve({ status, signal })));
  const kill = () => attackers.kill("SIGKILL");
  process.once("exit", kill);
  let result;
  try {
    await Promise.race([once(attackers, "message", { signal: AbortSignal.timeout(BEGIN_MS) }), ended]);
    result = await run();
  } finally {
    process.off("exit", kill);
    kill();
  }
  const { signal } = await ended;
  if (signal !== "SIGKILL") throw new Error(`${name}: the attackers ended by themselves`);
  return result;
}

// What is wrong with a run under attack, in words. `calm` is the same without one.
export function complaints(name, report, calm, { factor, few_refused }) {
  const wrong = report.failures.filter((failure) => !is_refusal(failure)).slice(0, 3);
  const refused = report.failures.filter(is_refusal);
  if (report.answers === 0) wrong.push("no good client was answered");
  else if (refused.length > Math.max(few_refused, MAX_REFUSED * report.answers))
    wrong.push(`${refused.length} refusals beside ${report.answers} answers, such as ${refused[0]}`);
  const [now, before] = [report.time_to_first_token_ms.p99, calm.time_to_first_token_ms.p99];
  if (factor !== undefined && !(now <= factor * before))
    wrong.push(`the first token's p99 is ${now.toFixed(0)} ms, more than ${factor} times ${before.toFixed(0)}`);
  return wrong.map((text) => `${name}: ${text}`);
}

// options: { streams, attackers, seconds (of each attack), rounds, parts (each attack sees one of so many of the requests,
// in turns), few_refused, factor (none: not asked for), max_growth_mebibytes }.
// Complaints, in words.
export async function soak(server, names, options, tell = () => {}) {
  const all = requests();
  const expected = await answers_alone(server.url, all.map((one) => ({ ...one, headers: headers_of(0) })));
  const { streams, seconds, parts } = options;
  let turn = 0;
  const answered = all.map(() => 0); // of each request, under attack
  const load = async () => {
    const part = [...all.keys()].filter((at) => at % parts === turn % parts);
    ++turn;
    const [requests_now, expected_now] = [all, expected].map((list) => part.map((at) => list[at]));
    const limits = { streams, seconds, warm_up_seconds: 0, sample_ms: 500, headers_of };
    return { part, ...(await run_load(server.url, requests_now, expected_now, limits)) };
  };
  const line = (name, report) => {
    const { p50, p99 } = report.time_to_first_token_ms;
    const refusals = report.failures.filter(is_refusal).length;
    tell(
      `${name}: ${report.answers} answers, ${refusals} refusals, first token p50 ${p50.toFixed(0)} ms, p99 ` +
        `${p99.toFixed(0)} ms, ${resident_mebibytes(server.pid).toFixed(0)} MiB`,
    );
  };
  const wrong = [];
  const memory = options.rounds === 1 ? [resident_mebibytes(server.pid)] : []; // else the first round is the warm-up
  for (let round = 0; round < options.rounds; ++round) {
    let calm;
    for (const name of names) {
      if (calm === undefined || options.factor !== undefined) {  // what else the machine does changes, too
        calm = await load();
        line("no attack", calm);
        wrong.push(...complaints("no attack", calm, calm, { ...options, factor: undefined }));
      }
      const report = await under_attack(name, server.port, options.attackers, load);
      line(name, report);
      report.part.forEach((at, i) => { answered[at] += report.counts[i]; });
      wrong.push(...complaints(name, report, calm, options));
    }
    await until_idle(server.url, headers_of(0), 60_000);
    memory.push(resident_mebibytes(server.pid));
  }
  for (const at of answered.keys()) if (answered[at] === 0) wrong.push(`request ${at} was never answered under attack`);
  const growth = memory.at(-1) - memory[0];
  tell(`memory: ${memory.map((value) => value.toFixed(1))} MiB`);
  if (!(growth <= options.max_growth_mebibytes)) wrong.push(`memory grew by ${growth.toFixed(1)} MiB`);
  return wrong;
}
