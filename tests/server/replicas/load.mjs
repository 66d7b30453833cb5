// Clients of replicas behind a proxy: they ask the same questions again and again, and retry what broke, as any client
// may. Every answer must be the one that the question has alone.
import { open_stream, request } from "../support/http.mjs";

const MOST_TRIES = 8;
const WAIT_MS = 40; // longer with each try
const CHAT = "/v1/chat/completions";

export const KEY = "sk-replicas";
export const HEADERS = { Authorization: `Bearer ${KEY}` };

const ask = (content, options) => [CHAT, { messages: [{ role: "user", content }], ignore_eos: true, ...options }];
const TRAIN = "A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?";

// Greedy and sampled, one choice and two, long enough to be caught in the middle.
export const QUESTIONS = [
  ask("What is 48 + 27?", { max_tokens: 80 }),
  ask(TRAIN, { temperature: 1.5, seed: 7, max_tokens: 70 }),
  ask("Tom has 3 boxes of 12 pens.", { temperature: 0.8, top_p: 0.9, seed: 1, n: 2, max_tokens: 50 }),
  ["/v1/completions", { prompt: "Pens in the boxes: 3 x 12 =", ignore_eos: true, max_tokens: 80 }],
  ["/v1/completions", { prompt: "Answer:", temperature: 1, seed: 9, ignore_eos: true, max_tokens: 70 }],
];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Broken extends Error {} // what a client may retry

// Of each choice the text, the digest after each token and the reason of its end, as far as they came.
function add_chunk(choices, { choices: [choice] }) {
  const so_far = (choices[choice.index] ??= { text: "", digests: [], end: null });
  so_far.text += choice.delta?.content ?? choice.text ?? "";
  if (choice.digest !== undefined && choice.finish_reason === null) so_far.digests.push(choice.digest);
  if (choice.finish_reason !== null) so_far.end = [choice.finish_reason, choice.digest];
}

// The whole answer, or Broken; `choices` has what came before.
async function read_stream(url, [path, body], choices) {
  let is_done = false;
  try {
    const { events } = await open_stream(url, path, { ...body, digest: true }, HEADERS);
    for await (const { data } of events) {
      is_done = data === "[DONE]";
      if (is_done) continue;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(`status 503: ${data}`);
      add_chunk(choices, chunk);
    }
  } catch (error) {
    throw as_broken(error);
  }
  if (!is_done) throw new Broken("the stream ends without [DONE]");
}

async function read_plain(url, [path, body], choices) {
  const reply = await request(url, path, { body: { ...body, digest: true }, headers: HEADERS }).catch((error) => {
    throw as_broken(error);
  });
  if (reply.status !== 200) throw as_broken(new Error(`status ${reply.status}: ${reply.body}`));
  for (const { index, message, text, digest, finish_reason } of reply.json().choices)
    choices[index] = { text: message?.content ?? text, digests: [], end: [finish_reason, digest] };
}

function as_broken(error) {
  const is_transient = error.code !== undefined || /^status 50[234]|ends within an event/.test(error.message);
  return is_transient ? new Broken(error.message, { cause: error }) : error;
}

export async function answer_alone(url, question) {
  const choices = {};
  await read_stream(url, question, choices);
  return choices;
}

// Whether what came is the expected answer, or, where it broke, its beginning.
function is_beginning(choices, expected) {
  return Object.entries(choices).every(([index, { text, digests, end }]) => {
    const whole = expected[index];
    const begins = whole.text.startsWith(text) && digests.every((digest, i) => digest === whole.digests[i]);
    return begins && (end === null || (end.join() === whole.end.join() && text === whole.text));
  });
}
function is_whole(choices, expected) {
  const ended = Object.values(choices).filter(({ end }) => end !== null);
  return ended.length === Object.keys(expected).length && is_beginning(choices, expected);
}

// Starts clients that ask until `end()`, which gives the tally: `broken` are the tries that a client had to repeat,
// `streams_broken` how many of them had brought a part of the answer, and `retried` the answers that it then got.
export function start_load(url, expected, clients) {
  const tally = { answers: 0, streamed: 0, wrong: [], failed: [], broken: [], streams_broken: 0, retried: 0 };
  let [is_over, turn] = [false, 0];

  const ask_once = async (number) => {
    const which = number % QUESTIONS.length;
    const is_stream = number % 2 === 0;
    for (let tried = 1; ; tried++) {
      const choices = {};
      try {
        await (is_stream ? read_stream : read_plain)(url, QUESTIONS[which], choices);
        if (!is_whole(choices, expected[which])) tally.wrong.push(`question ${which}`);
        tally.answers++;
        tally.streamed += is_stream;
        tally.retried += tried > 1;
        return;
      } catch (error) {
        if (!(error instanceof Broken) || tried === MOST_TRIES) throw error;
        if (!is_beginning(choices, expected[which])) tally.wrong.push(`the beginning of question ${which}`);
        tally.broken.push(error.message);
        tally.streams_broken += Object.keys(choices).length > 0;
        await sleep(WAIT_MS * tried);
      }
    }
  };
  const client = async () => {
    while (!is_over) await ask_once(turn++).catch((error) => tally.failed.push(error.message));
  };
  const all = Promise.all(Array.from({ length: clients }, client));
  return {
    tally,
    async end() {
      is_over = true;
      await all;
      return tally;
    },
  };
}
