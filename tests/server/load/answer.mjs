// One streamed answer: what must be equal each time, and when its tokens came.
import { createHash } from "node:crypto";
import { open_stream } from "../support/http.mjs";

// What a request decides. A reply's name and time differ, as does how much of the prompt was cached; and the chunks of
// several choices come in any order, though those of each one do not.
function without_circumstances(chunk) {
  const { id, created, ...rest } = chunk;
  if (rest.usage) delete rest.usage.prompt_tokens_details;
  return rest;
}

// { digest, tokens, first_ms, gaps }: a SHA-256 over all chunks, the tokens of the answer, the milliseconds to the
// first one, and those between a choice's tokens. Throws if anything is wrong with the stream.
export async function read_answer(url, { path, body, headers }) {
  const begin = performance.now();
  const { events } = await open_stream(url, path, body, headers);
  const choices = new Map();
  const gaps = [];
  let [first_ms, usage, is_done] = [undefined, undefined, false];
  for await (const { data, at } of events) {
    if (is_done) throw new Error(`after [DONE]: ${data}`);
    if (data === "[DONE]") {
      is_done = true;
      continue;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(data);
    if (chunk.choices.length === 0) usage = chunk.usage;
    const index = chunk.choices[0]?.index ?? -1;
    const choice = choices.get(index) ?? { hash: createHash("sha256"), last: undefined };
    choices.set(index, choice);
    choice.hash.update(JSON.stringify(without_circumstances(chunk)));
    if (chunk.choices[0]?.digest === undefined || chunk.choices[0].finish_reason !== null) continue; // no token's chunk
    first_ms ??= at - begin;
    if (choice.last !== undefined) gaps.push(at - choice.last);
    choice.last = at;
  }
  if (!is_done || usage === undefined) throw new Error("the stream ends without usage and [DONE]");
  const digests = [...choices].sort(([a], [b]) => a - b).map(([, { hash }]) => hash.digest("hex"));
  return {
    digest: createHash("sha256").update(digests.join()).digest("hex"),
    tokens: usage.completion_tokens,
    first_ms,
    gaps,
  };
}
