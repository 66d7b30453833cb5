// What the paper measured: "Accelerating the Mitigation of LLM Inference Nondeterminism Across GPU Architectures" (Cooper,
// Jeong, Jeon, Young, Kim), whose tables and figures are cited by number.
"use strict";

// Baselines that are the same there and here, with its names for them. Its own method is any contract here.
const PAPER_BASELINES = { bf16: "BF16", layercast: "LayerCast" };
const PAPER_SPEED_BASELINE = "layercast"; // whose time its Figures 4 and 5 compare with
const paper_method = (method) =>
  method.pins_bits ? "ours" : method.numerics in PAPER_BASELINES ? method.numerics : null;
const baseline_title = (numerics) => PAPER_BASELINES[numerics] ?? numerics;

// Tables 1 and 5, in percent and tokens: [Div% between GPUs, Div_Index, pairs between seeds]; null is its dash.
const PAPER_CELLS = [
  ["deepseek-r1-distill", "gsm8k", { bf16: [88.86, 104, 19.06], layercast: [0.15, 187, 0], ours: [0, null, 0] }],
  ["deepseek-r1-distill", "math500", { bf16: [93, 189, 25.4], layercast: [0.4, 534, 0], ours: [0, null, 0] }],
  ["deepseek-r1-distill", "aime24", { bf16: [100, 208, 0], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["deepseek-r1-distill", "gpqa", { bf16: [100, 145, 12.74], layercast: [0.51, 3551, 0], ours: [0, null, 0] }],
  ["llama-3.2-3b", "gsm8k", { bf16: [66.64, 65, 17.34], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["llama-3.2-3b", "math500", { bf16: [79.6, 106, 13.6], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["llama-3.2-3b", "aime24", { bf16: [86.67, 153, 17.78], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["llama-3.2-3b", "gpqa", { bf16: [30.81, 114, 12.07], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["qwen3-4b", "gsm8k", { bf16: [70.81, 99, 5.96], layercast: [0.23, 436, 0], ours: [0.08, 671, 0] }],
  ["qwen3-4b", "math500", { bf16: [83.6, 204, 18.33], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["qwen3-4b", "aime24", { bf16: [100, 204, 0], layercast: [0, null, 0], ours: [0, null, 0] }],
  ["qwen3-4b", "gpqa", { bf16: [99.49, 131, 20.09], layercast: [0.51, 493, 0], ours: [0, null, 0] }],
];

const plain_name = (name) => name.toLowerCase().replace(/[^a-z0-9.]+/g, "-");
const joined_name = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, "");

// The paper's cell for this model, task and method, or else the range over its twelve cells.
function paper_cell(group, method) {
  const key = paper_method(method);
  if (!key) return null;
  const of_key = (cells, at) => cells.map((cell) => cell[2][key][at]).filter((value) => value !== null);
  const exact = PAPER_CELLS.filter(
    ([model, task]) => plain_name(group.model).includes(model) && joined_name(group.task).includes(task),
  );
  const cells = exact.length > 0 ? exact : PAPER_CELLS;
  const range = (at) => {
    const values = of_key(cells, at);
    return values.length > 0 ? [Math.min(...values), Math.max(...values)] : null;
  };
  return { exact: exact.length > 0, divergent: range(0), index: range(1), seeds: range(2) };
}

// Section "Decision Margins and Logit Noise": medians in nats, and positions that are bitwise equal.
const PAPER_SHIFTS = {
  bf16: "median 6.3e-2",
  layercast: "median 1.8e-5 to 3.6e-5; 2.3 to 4.0 % equal",
  ours: "98.4 % equal between A100 and L40S; 9.6 % against H100, median 7.9e-6",
};
const PAPER_FLIPS = { bf16: "0.125", layercast: "1.1e-5 to 7.4e-5", ours: "one flip, of 3.8e-6" };

// Figure 5 and the text beside it: what GPUs have, and times as fast as LayerCast end to end.
const PAPER_SPEEDUPS = [
  { device: "A100", ratio: 12.5, low: 1.17, high: 1.43 },
  { device: "H100", ratio: 25.6, low: 1.17, high: 1.43 },
  { device: "L40S", ratio: 106, low: 1.6, high: 3.1 },
];

// Table 2: GiB of weights, GiB of the spike in a forward pass, tokens of keys and values.
const PAPER_MEMORY = [
  {
    model: "DeepSeek-R1-Distill-Llama-8B",
    shapes: /llama(-?3(\.1)?)?-8b/,
    layercast: [16.92, 0.445, 70832],
    ours: [15.94, 0.051, 74912],
  },
  { model: "Qwen3-14B", shapes: /qwen-?3-14b/, layercast: [30.41, 0.673, 128288], ours: [28.96, 0.06, 133536] },
];

// The supplement's section C.
const PAPER_ABLATIONS = {
  r1: "Paper, Table 6: with IEEE FMA 9 of 9 cases are equal on A100, L40S and H100; with TF32 or TF32x3 none is. TF32 takes 0.42 times as long, and its error is 7.6e-4 in place of 4.8e-6.",
  r2: "Paper, Table 7: the same search picks the same configuration on all three GPUs for 3 of 9 shapes; the pinned one gives equal bits on 9 of 9, the tuned ones on 7. Pinning costs 1.4 % at the median.",
  r3: "Paper, Table 9: 50 runs of atomic split-K gave 50 results on 5 of 6 shapes; ordered split-K gave one, 1.9 to 5.6 times as fast as no split.",
  r4: "Paper, Table 10: row 0 is independent of the batch on 6 of 6 shapes on each GPU; with a split sized by occupancy on 1 or 2, with cuBLAS on none.",
};

// Section "Accuracy": the same with LayerCast and with the paper's kernels.
const PAPER_ACCURACY = [
  ["qwen3-4b", "gsm8k", { layercast: 93.93, ours: 93.93 }],
  ["qwen3-4b", "math500", { layercast: 87.2, ours: 87.2 }],
];
const paper_accuracy = (group, method) =>
  PAPER_ACCURACY.find(
    ([model, task]) => plain_name(group.model).includes(model) && joined_name(group.task).includes(task),
  )?.[2][paper_method(method)] ?? null;
