// What the streams of a load ask: short and long prompts, greedy and sampled, one choice and two, with and without
// log-probabilities and stop strings.
const ask = (content, options = {}) => ["/v1/chat/completions", { messages: [{ role: "user", content }], ...options }];
const go_on = (prompt, options = {}) => ["/v1/completions", { prompt, ...options }];

const PENS = "Tom has 3 boxes of 12 pens. He gives away 7 pens and then buys 10 more. How many pens does he have?";
const TRAIN = "A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?";

const REQUESTS = [
  ask("What is 48 + 27?"),
  ask(PENS),
  ask(TRAIN, { temperature: 1.5, seed: 7, max_tokens: 60, ignore_eos: true }),
  ask(TRAIN, { temperature: 0.8, top_p: 0.9, top_k: 40, seed: 1, n: 2, max_tokens: 40 }),
  ask(`${PENS} ${TRAIN} `.repeat(8), { max_tokens: 30 }), // several pages of prompt, which the prefix cache finds again
  ask(PENS, { logprobs: true, top_logprobs: 5, stop: [".\nWith 10"] }),
  go_on("Pens in the boxes: 3 x 12 =", { max_tokens: 100, ignore_eos: true, logprobs: 1 }),
  go_on(
    [
      [1019, 84, 437],
      [51, 626, 312, 32, 49, 50],
    ],
    { max_tokens: 24, temperature: 1, seed: -5 },
  ),
  go_on("Answer:", { max_tokens: 250, ignore_eos: true, temperature: 1, seed: 3, repetition_penalty: 1.1 }),
  go_on(`${TRAIN}\n`.repeat(12), { max_tokens: 1, echo: true, logprobs: 2 }),
];

export const requests = () =>
  REQUESTS.map(([path, body]) => ({
    path,
    body: { ...body, digest: true, stream: true, stream_options: { include_usage: true } },
  }));
