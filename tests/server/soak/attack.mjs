// Clients that misbehave, in a process of their own: what each does, again and again.
// Usage: node attack.mjs PORT NAME CLIENTS, until it is killed. A parent is told when the first of them is connected.
import net from "node:net";
import { pathToFileURL } from "node:url";
import { request } from "../support/http.mjs";

const GOOD_ADDRESS = "127.0.0.1"; // of good clients
const ADDRESS = "127.0.0.2";
export const GOOD_KEYS = Array.from({ length: 64 }, (_, i) => `of-good-client-${i}`);
export const BAD_KEYS = ["of-a-bad-client", "of-another"];
const BAD_KEY = BAD_KEYS[0];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let told = false;
function tell_parent() {
  if (!told) process.send?.("connected");
  told = true;
}

// A connection that sends these bytes and stays until the server ends it, but not for longer than `hold_ms`. It reads
// all that comes, nothing, or a little now and then.
async function send(port, bytes, hold_ms, { reads = "all", address = ADDRESS } = {}) {
  const socket = net.connect({ port, host: "127.0.0.1", localAddress: address });
  socket.on("error", () => {});
  socket.once("connect", tell_parent);
  if (reads === "all") socket.resume();
  else socket.pause();
  const timer = reads === "little" ? setInterval(() => socket.read(1024), 100) : undefined;
  const closed = new Promise((resolve) => socket.on("close", resolve));
  socket.write(bytes);
  await Promise.race([closed, sleep(hold_ms)]);
  clearInterval(timer);
  socket.destroy();
}

const get = (path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
let turn = 0; // of the keys, and of what changes each time
const post = (body, path = "/v1/completions", length = Buffer.byteLength(body)) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${BAD_KEYS[turn++ % BAD_KEYS.length]}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${body}`;
const ask = (fields) => post(JSON.stringify({ prompt: "Pens:", ...fields }));
// Made once: an attacker has more to do than to make the same bytes again.
const made = new Map();
const large = (name, make) => made.get(name) ?? made.set(name, Buffer.from(make())).get(name);
const of_16_mb = (text) => text.repeat(Math.floor(16_000_000 / text.length));
const LONG = { max_tokens: 900, ignore_eos: true, stream: true };
const LARGE = { prompt: Array(900).fill(84), n: 4, max_tokens: 1, echo: true, logprobs: 20 }; // some megabytes

// Signed by the server itself, so that it is replayed in full.
let receipt;
async function receipt_of(port) {
  receipt ??= request(`http://127.0.0.1:${port}`, "/v1/completions", {
    headers: { Authorization: `Bearer ${BAD_KEY}` },
    body: { prompt: "Pens:", max_tokens: 300, ignore_eos: true, receipt: true },
  }).then((reply) => reply.json().choices[0].receipt);
  return receipt;
}

export const ATTACKS = {
  "idle connections": (port) => send(port, get("/health"), 5_000),
  "slow headers": (port) => send(port, "GET /health HTTP/1.1\r\nX: ", 5_000),
  "slow bodies": (port) => send(port, post('{"prompt":', "/v1/completions", 1_000_000), 5_000),
  "connections that come and go": (port) => send(port, "", 1),
  "pages that nobody reads": (port) => send(port, get("/").repeat(50), 5_000, { reads: "nothing" }),
  nonsense: (port) => send(port, "POST / HTTP/1.1\r\nTransfer-Encoding: x\r\nContent-Length: 1\r\n\r\n", 100),
  "long headers": (port) => send(port, `GET / HTTP/1.1\r\nX: ${"a".repeat(1_000_000)}`, 1_000),
  "wrong keys": (port) => send(port, post("{}").replace(/Bearer \S+/, "Bearer of-nobody"), 100),
  "empty stop strings": (port) => send(port, large("stop", () => post(`{"prompt":"a","stop":[${of_16_mb('"",')}""]}`)), 5_000),
  "objects that nobody reads": (port) => send(port, large("user", () => post(`{"prompt":"a","user":[${of_16_mb("{},")}{}]}`)), 5_000),
  "token ids by the million": (port) => send(port, large("ids", () => post(`{"prompt":[${of_16_mb("84,")}84]}`)), 5_000),
  "long texts": (port) => send(port, large("text", () => ask({ prompt: of_16_mb("word "), max_tokens: 1 })), 5_000),
  "texts to encode": (port) => send(port, post(JSON.stringify({ prompt: "aé7 ".repeat(8_000) }), "/tokenize"), 5_000),
  "many long answers": (port) => send(port, ask({ n: 128, ...LONG }), 5_000),
  "a key at the address of others": (port) => send(port, ask({ n: 128, ...LONG }), 5_000, { address: GOOD_ADDRESS }),
  "urgent answers": (port) => send(port, ask({ n: 16, priority: -1_000 - turn, ...LONG }), 5_000),
  "many prompts": (port) => send(port, ask({ prompt: Array(800).fill([84, 85]), max_tokens: 64 }), 5_000),
  "likelihoods of prompts": (port) => send(port, ask(LARGE), 5_000),
  receipts: (port) => send(port, ask({ n: 64, max_tokens: 2, receipt: true }), 5_000),
  "receipts to verify": async (port) =>
    send(port, post(JSON.stringify({ receipt: await receipt_of(port) }), "/v1/receipts/verify"), 5_000),
  "clients that leave": (port) => send(port, ask(LONG), 50),
  "clients that do not read": (port) => send(port, ask({ ...LARGE, stream: true }), 2_000, { reads: "nothing" }),
  "clients that read slowly": (port) => send(port, ask(LARGE), 20_000, { reads: "little" }),
};

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [port, name, clients] = process.argv.slice(2);
  const bad_client = async () => {
    for (;;) {
      await ATTACKS[name](Number(port)).catch(() => {}); // it has no receipt yet
      await sleep(20);
    }
  };
  for (let i = 0; i < Number(clients); ++i) bad_client();
}
