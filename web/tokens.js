// From the events of a streamed answer to its tokens, with what was likely beside each.

// A BF16 step of a logit between 16 and 32: a stack that rounds there cannot tell the two apart.
const NEAR_TIE = 0.125;
const CLOSE = 1;
const UNTINTED = 4;

export const level_of = (margin) => (margin < NEAR_TIE ? "tie" : margin < CLOSE ? "close" : "clear");

// From 1 at a tie to 0 at a margin that nothing moves.
export const tint_of = (margin) => Math.max(0, 1 - margin / UNTINTED) ** 2;

const by_logprob = (a, b) => b.logprob - a.logprob;

function make_token(id, text, logprob, top) {
  const likely = top.filter(({ logprob: value }) => Number.isFinite(value)).sort(by_logprob);
  const margin = likely.length > 1 ? likely[0].logprob - likely[1].logprob : Infinity;
  return { id, text, logprob, top: likely, margin };
}

// A character may be spread over tokens; its text then belongs to the token that completes it.
function chat_tokens(choice, decoder) {
  const ids = choice.token_ids ?? [];
  return (choice.logprobs?.content ?? []).map(({ token, bytes, logprob, top_logprobs }, i) => {
    const text = bytes ? decoder.decode(Uint8Array.from(bytes), { stream: true }) : token;
    const top = top_logprobs.map((other) => ({ text: other.token, logprob: other.logprob }));
    return { ...make_token(ids[i], text, logprob, top), name: token };
  });
}

function completion_tokens(choice) {
  const ids = choice.token_ids ?? [];
  const { tokens = [], token_logprobs = [], top_logprobs = [] } = choice.logprobs ?? {};
  return tokens.map((name, i) => {
    const text = tokens.length === 1 ? choice.text : name;
    const top = Object.entries(top_logprobs[i] ?? {}).map(([other, logprob]) => ({ text: other, logprob }));
    return { ...make_token(ids[i], text, token_logprobs[i], top), name };
  });
}

// One answer as it was received: `digests[n]` is the running digest after n tokens, where it was told.
export class Answer {
  tokens = [];
  text = "";
  digests = [];
  digest = "";
  fingerprint = "";
  ending = "";
  stopped = false; // before its end
  usage = null;
  receipt = null; // once it has ended, where the server signs
  #decoder = new TextDecoder();

  // Takes in an event and returns the tokens it brought.
  add(event) {
    this.fingerprint = event.system_fingerprint ?? this.fingerprint;
    this.usage = event.usage ?? this.usage;
    const choice = event.choices?.[0];
    if (!choice) return [];
    const tokens = choice.delta ? chat_tokens(choice, this.#decoder) : completion_tokens(choice);
    this.tokens.push(...tokens);
    this.text += (choice.delta ? choice.delta.content : choice.text) ?? "";
    this.ending = choice.finish_reason ?? this.ending;
    this.digest = choice.digest ?? this.digest;
    this.receipt = choice.receipt ?? this.receipt;
    // The last digest covers the step that chose to stop as well, so it is not that of the tokens alone.
    if (choice.digest && !choice.finish_reason) this.digests[this.tokens.length] = choice.digest;
    return tokens;
  }

  get near_ties() {
    return this.tokens.filter(({ margin }) => level_of(margin) === "tie").length;
  }

  // The place of the token whose second choice came closest; -1 when no margin is known.
  get weakest() {
    const margins = this.tokens.map(({ margin }) => margin);
    const least = Math.min(...margins);
    return Number.isFinite(least) ? margins.indexOf(least) : -1;
  }
}
