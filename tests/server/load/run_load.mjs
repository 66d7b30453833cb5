// Puts a server under load and reports how it did. Exit status 1 if a stream failed, if an answer was not the one that
// its request has alone, or if the server's memory grew.
//
// Usage: node run_load.mjs (--tool REPROFUSE | --url URL [--pid PID]) [--streams 64] [--seconds 600] [--threads 2]
//          [--max-growth MIB] [--json]
// With --tool a server is started and stopped; --pid is the process whose memory is watched, if the server is
// another's.
import { parseArgs } from "node:util";
import { start_server } from "../support/server.mjs";
import { answers_alone, complaints, run_load } from "./load.mjs";
import { requests } from "./requests.mjs";

const { values } = parseArgs({
  options: {
    tool: { type: "string" },
    url: { type: "string" },
    pid: { type: "string" },
    streams: { type: "string", default: "64" },
    seconds: { type: "string", default: "600" },
    threads: { type: "string", default: "2" },
    "max-growth": { type: "string", default: "8" },
    json: { type: "boolean", default: false },
  },
});

const ms = ({ p50, p99, most }) => `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, longest ${most.toFixed(1)} ms`;

function print(report, streams) {
  const mib = (value) => `${value.toFixed(1)} MiB`;
  const rows = [
    ["streams", `${streams} for ${report.seconds.toFixed(1)} s`],
    ["answers", `${report.answers}, all equal to those alone: ${report.failures.length === 0}`],
    ["tokens", `${report.tokens}, ${report.tokens_per_second.toFixed(1)} per second`],
    ["time to first token", ms(report.time_to_first_token_ms)],
    ["inter-token latency", ms(report.inter_token_latency_ms)],
  ];
  if (report.memory) {
    const { start, warm, end, most, growth } = report.memory;
    rows.push([
      "memory (RSS)",
      `${mib(start)} at first, ${mib(warm)} warm, ${mib(end)} at the end, at most ${mib(most)}; growth ${mib(growth)}`,
    ]);
  }
  for (const [name, text] of rows) console.log(`${name.padEnd(20)} ${text}`);
}

const server = values.tool && (await start_server(values.tool, ["--threads", values.threads]));
const url = server ? server.url : values.url;
if (url === undefined) throw new Error("--tool or --url must be given");
const seconds = Number(values.seconds);
const streams = Number(values.streams);
const pid = server ? server.pid : values.pid && Number(values.pid);
const progress = ({ mebibytes }) => process.stderr.write(`\r${mebibytes.toFixed(1)} MiB `);
const all = requests();
const report = await run_load(url, all, await answers_alone(url, all), {
  streams,
  seconds,
  warm_up_seconds: seconds / 5,
  sample_ms: 2_000,
  pid,
  progress: process.stderr.isTTY ? progress : undefined,
});
const wrong = complaints(report, Number(values["max-growth"]));
if (values.json) console.log(JSON.stringify(report));
else print(report, streams);
if (server) {
  const { status } = await server.stop();
  if (status !== 0) wrong.push(`the server ended with status ${status}`);
}
for (const complaint of wrong) console.log(`wrong: ${complaint}`);
process.exitCode = wrong.length === 0 ? 0 : 1;
