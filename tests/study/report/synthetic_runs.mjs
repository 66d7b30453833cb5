// Runs that no model made, written as docs/study.md describes the file: a margin for every step, moved by noise of the size
// that a method has, so that tokens flip where the noise is larger.
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

const sha256 = (bytes) => createHash("sha256").update(bytes).digest();
const CANDIDATES = 5;

const word = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value | 0);
  return bytes;
};
const real = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const text = (value) => Buffer.concat([word(Buffer.byteLength(value)), Buffer.from(value)]);
function record(kind, payload) {
  const bytes = Buffer.concat([Buffer.from([kind]), word(payload.length), payload]);
  return Buffer.concat([bytes, sha256(bytes)]);
}
function answer_payload({ cell, problem, digest, said, steps }) {
  const parts = [word(cell), word(problem), Buffer.from([0]), text(digest), text(said), word(steps.length)];
  for (const { token, margin } of steps) {
    parts.push(word(token));
    for (let i = 0; i < CANDIDATES; ++i) parts.push(word(i === 0 ? token : 1000 + i));
    for (let i = 0; i < CANDIDATES; ++i) parts.push(real(i === 0 ? -0.5 : -0.5 - margin - (i - 1)));
  }
  return Buffer.concat(parts);
}
function seconds_payload(cell, seconds) {
  const bytes = Buffer.alloc(12);
  bytes.writeUInt32LE(cell);
  bytes.writeBigUInt64LE(BigInt(Math.round(seconds * 1e6)), 4);
  return bytes;
}

// Numbers from 0 to 1 that depend on what they are for alone.
const uniform = (...of) => (sha256(of.join("/")).readUInt32LE() + 0.5) / 2 ** 32;
const normal = (...of) => Math.sqrt(-2 * Math.log(uniform("r", ...of))) * Math.cos(2 * Math.PI * uniform("a", ...of));

// `noise` is the median shift of a method in nats; `seconds` its time.
export const METHODS = [
  { numerics: "fma-1", pins_bits: true, noise: 0, seconds: 7 },
  { numerics: "exact-1", pins_bits: true, noise: 0, seconds: 6 },
  { numerics: "layercast", pins_bits: false, noise: 2e-5, seconds: 10 },
  { numerics: "bf16", pins_bits: false, noise: 0.06, seconds: 4.5 },
];

// An answer: its margins belong to the problem, and the noise to run, seed and method. After a flip it is another text.
function make_answer({ task, platform, seed, method, cell, problem }) {
  const key = `${task}/${problem}`;
  const length = 12 + Math.floor(28 * uniform("length", key));
  let branch = "";
  const steps = [];
  for (let at = 0; at < length; ++at) {
    const margin = 12 * uniform("margin", key, at, branch);
    // Half of the steps do not depend on who shares the batch.
    const company = uniform("company", key, at) < 0.5 ? 0 : seed;
    const moved = margin + method.noise * normal("noise", key, at, platform, method.numerics, company);
    if (moved < 0) branch += `/${at}`;
    steps.push({ token: Math.floor(900 * uniform("token", key, at, branch)), margin: Math.abs(moved) });
  }
  const right = uniform("right", key) < 0.75 && !(branch && uniform("lost", key) < 0.3);
  const digest = `tree-1:${sha256(JSON.stringify(steps)).toString("hex")}`;
  return { cell, problem, digest, said: `It is ${right ? problem : "unknown: 9999"}.`, steps };
}

// Writes a run of `problems` problems by every method at `seeds` seeds. Returns its path.
export function write_run(
  folder,
  { model, task, platform, device, batch = 32, problems = 40, seeds = 3, slower = 1, settings = {}, methods = METHODS },
) {
  const cells = methods.flatMap((method) => Array.from({ length: seeds }, (_, seed) => ({ method, seed })));
  const header = {
    version: "0.0.0",
    model,
    task,
    device,
    vendor: "a library of the test",
    machine: "Linux test",
    batch,
    settings: { "model digest": sha256(model).toString("hex"), "longest answer": "64", ...settings },
    cells: cells.map(({ method, seed }) => ({
      numerics: method.numerics,
      pins_bits: method.pins_bits,
      seed: String(seed),
      fingerprint: `${method.pins_bits ? "" : "unpinned-"}${method.numerics}-${sha256(model).toString("hex").slice(0, 16)}-89abcdef-0.0.0`,
    })),
    problems: Array.from({ length: problems }, (_, at) => ({
      id: String(at),
      prompt_sha256: sha256(`${task}/${at}`).toString("hex"),
      answer: String(at),
    })),
  };
  const parts = [Buffer.from("reprofuse-run-1\n"), record(1, Buffer.from(JSON.stringify(header)))];
  cells.forEach(({ method, seed }, cell) => {
    for (let problem = 0; problem < problems; ++problem)
      parts.push(record(2, answer_payload(make_answer({ task, platform, seed, method, cell, problem }))));
    parts.push(record(3, seconds_payload(cell, method.seconds * slower * (1 + 0.03 * normal(platform, cell)))));
  });
  fs.mkdirSync(path.join(folder, task), { recursive: true });
  const file = path.join(folder, task, `${platform}.run`);
  fs.writeFileSync(file, Buffer.concat(parts));
  return file;
}

// Three platforms each of a model and task that the paper has, and of one that it has not.
export function write_study(folder) {
  const platforms = [
    { platform: "first", device: "cuda:0 First GPU (sm_80)", slower: 1.3 },
    { platform: "second", device: "cuda:0 Second GPU (sm_90)", slower: 1 },
    { platform: "third", device: "cpu avx512, 2 threads", slower: 2, batch: 8 },
  ];
  const tasks = [
    { model: "Llama-3.2-3B-Instruct", task: "gsm8k", problems: 60 },
    { model: "arithmetic-7m", task: "word problems" },
  ];
  return tasks.map((task) => platforms.map((platform) => write_run(folder, { ...task, ...platform })));
}

// Results as the other commands write them, with one device that is among the platforms.
export function write_other_results(folder) {
  const write = (name, value) => {
    const file = path.join(folder, name);
    fs.writeFileSync(file, JSON.stringify(value));
    return file;
  };
  const device = "cuda:0 Second GPU (sm_90)";
  const row = (m) => ({
    name: "qkv",
    m,
    gigaflops: 9000,
    fma_fraction: 0.3,
    read_bytes: 3e7,
    read: { median_s: 1.5e-5 },
  });
  const forward = (m, ratio) => ({
    model: "llama-3.2-3b",
    m,
    layers: 28,
    with_head: true,
    linear_s: 0.003,
    layercast_ratio: ratio,
  });
  const run = (contract, ratios) => ({
    contract,
    pins_bits: true,
    device,
    baselines: ["layercast"],
    vendor: "a library of the test",
    rows: [1, 32].map(row),
    forwards: [1, 8, 32].map((m, at) => forward(m, ratios[at])),
  });
  const pins_bits = (name) => METHODS.find(({ numerics }) => numerics === name).pins_bits;
  const engine_row = (numerics, batch, times) => ({
    numerics,
    pins_bits: pins_bits(numerics),
    batch,
    times_baseline: times,
  });
  const memory_row = (shape, numerics, weights, peak, tokens) => ({
    shape,
    numerics,
    pins_bits: pins_bits(numerics),
    resident_weight_bytes: weights * 2 ** 30,
    transient_peak_bytes: peak * 2 ** 30,
    kv_tokens: tokens,
  });
  return {
    linear: write("linear.json", {
      version: "0.0.0",
      runs: [run("fma-1", [4.8, 3.9, 2.1]), run("exact-1", [5.6, 5.1, 4.7])],
    }),
    engine: write("engine.json", {
      version: "0.0.0",
      model: "llama-3.2-3b with random weights",
      device,
      baseline: "layercast",
      rows: [
        engine_row("fma-1", 1, 3.6),
        engine_row("fma-1", 32, 1.9),
        engine_row("exact-1", 32, 3.4),
        engine_row("layercast", 32, 1),
      ],
    }),
    memory: write("memory.json", {
      budget_bytes: 72 * 2 ** 30,
      device,
      rows: [
        memory_row("llama-8b", "layercast", 16.92, 0.98, 70000),
        memory_row("llama-8b", "fma-1", 14.96, 0.03, 80000),
        memory_row("qwen3-14b", "layercast", 30.4, 1.4, 128000),
        memory_row("qwen3-14b", "fma-1", 27.5, 0.04, 139000),
      ],
    }),
    ablation: write("ablation.json", {
      version: "0.0.0",
      experiments: [
        {
          rule: "r1",
          title: "R1: IEEE FMA only",
          machine: device,
          cpu_analogue: "",
          claims: [{ text: "Bits are equal <on> every path", held: true }],
          tables: [
            {
              title: "Nine cases",
              rows: [{ setting: "ieee", equal: "9 of 9", error: 4.8e-6 }],
              note: "Relative errors.",
            },
          ],
        },
      ],
    }),
  };
}
