// Is a replayed answer the recorded one, bit for bit?

// After how many tokens the running digests differ first, or -1. How tokens are grouped into events is the scheduler's
// business, so only what both sides were told is compared.
function first_difference(recorded, replayed) {
  return replayed.digests.findIndex((digest, n) => digest && recorded.digests[n] && digest !== recorded.digests[n]);
}

function why(recorded, replayed) {
  if (recorded.fingerprint === replayed.fingerprint) return "The fingerprint is the same: please report this.";
  return `The server is another one now: ${replayed.fingerprint}.`;
}

// `complete`: the replay has come to its end, or as far as a stopped recording goes.
export function compare(recorded, replayed, complete) {
  const different = (words) => ({ state: "different", words: `${words} ${why(recorded, replayed)}` });
  const at = first_difference(recorded, replayed);
  if (at !== -1) return different(`Different from token ${at} on.`);
  const count = recorded.tokens.length;
  const came = replayed.tokens.length;
  if (!complete) return { state: "running", words: `Replaying: ${came} of ${count} tokens, equal so far` };
  if (recorded.stopped) return { state: "equal", words: `Equal bit for bit as far as it went: ${count} tokens` };
  if (replayed.digest !== recorded.digest) return different("Different at the end.");
  return { state: "equal", words: `Equal bit for bit: ${count} tokens, the same digest` };
}
