// Many streams at once against one server for some time: no stream may fail, every answer to a request must be the one
// that the request has alone, byte for byte, and the server's memory must not grow.
import { resident_mebibytes } from "../support/server.mjs";
import { read_answer } from "./answer.mjs";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What each request is answered when nobody else asks.
export async function answers_alone(url, requests) {
  const expected = [];
  for (const request of requests) expected.push((await read_answer(url, request)).digest);
  return expected;
}

// The value that `part` of the sorted numbers do not exceed; NaN when there are none.
export function percentile(sorted, part) {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? NaN;
}

function times_of(values) {
  const sorted = Float64Array.from(values).sort();
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), most: percentile(sorted, 1) };
}

// How much more memory there was at the end than after the warm-up: the medians of a tenth of the samples each.
export function growth_of(samples) {
  const part = Math.max(1, Math.floor(samples.length / 10));
  const median = (values) => percentile(Float64Array.from(values).sort(), 0.5);
  return median(samples.slice(-part)) - median(samples.slice(0, part));
}

async function sample_memory(pid, options, is_over) {
  const samples = [];
  for (;;) {
    samples.push({ at: performance.now(), mebibytes: resident_mebibytes(pid) });
    if (is_over()) return samples;
    await sleep(options.sample_ms);
    options.progress?.(samples.at(-1));
  }
}

// `streams` clients, each asking one thing after the other until the time is up and every request was asked; those
// under way are finished. options: { streams, seconds, warm_up_seconds, sample_ms, pid, progress, headers_of (a client) }
export async function run_load(url, requests, expected, options) {
  const begin = performance.now();
  const is_over = () => performance.now() - begin > options.seconds * 1000;
  const result = { answers: 0, tokens: 0, failures: [], counts: requests.map(() => 0) };
  const [first, gaps] = [[], []];
  let turn = 0;
  const client = async (_, number) => {
    const headers = options.headers_of?.(number);
    while (!is_over() || turn < requests.length) {
      const which = turn++ % requests.length;
      try {
        const answer = await read_answer(url, { headers, ...requests[which] });
        if (answer.digest !== expected[which]) throw new Error("not the answer that the request has alone");
        result.answers += 1;
        result.counts[which] += 1;
        result.tokens += answer.tokens;
        if (answer.first_ms !== undefined) first.push(answer.first_ms);
        for (const gap of answer.gaps) gaps.push(gap);
      } catch (error) {
        result.failures.push(`request ${which}: ${error.message}`);
      }
    }
  };
  const memory = options.pid === undefined ? undefined : sample_memory(options.pid, options, is_over);
  await Promise.all(Array.from({ length: options.streams }, client));
  const seconds = (performance.now() - begin) / 1000;
  return {
    ...result,
    seconds,
    tokens_per_second: result.tokens / seconds,
    time_to_first_token_ms: times_of(first),
    inter_token_latency_ms: times_of(gaps),
    memory: memory && memory_report(await memory, begin, options.warm_up_seconds),
  };
}

function memory_report(samples, begin, warm_up_seconds) {
  const after = samples.filter(({ at }) => at - begin >= warm_up_seconds * 1000).map(({ mebibytes }) => mebibytes);
  return {
    start: samples[0].mebibytes,
    warm: after[0],
    end: after.at(-1),
    most: Math.max(...after),
    growth: growth_of(after),
    samples: samples.length,
  };
}

// What is wrong with a run, in words; nothing if it is as it should be.
export function complaints(report, max_growth_mebibytes) {
  const wrong = report.failures.slice(0, 10);
  if (report.failures.length > 10) wrong.push(`and ${report.failures.length - 10} failures more`);
  const unasked = report.counts.flatMap((count, which) => (count === 0 ? [which] : []));
  if (unasked.length > 0) wrong.push(`requests ${unasked} were never answered`);
  if (report.memory && !(report.memory.growth <= max_growth_mebibytes)) {
    wrong.push(`memory grew by ${report.memory.growth} MiB after the warm-up, more than ${max_growth_mebibytes}`);
  }
  return wrong;
}
