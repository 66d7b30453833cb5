// HTTP without a library between a test and the server: each request on a connection of its own, and nothing is tried
// again.
import http from "node:http";

const SILENCE_MS = 60_000; // nothing here takes that long, so a server that is silent has hung

function send(url, path, { method, headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const is_json = body !== undefined && typeof body !== "string" && !Buffer.isBuffer(body);
    const data = is_json ? JSON.stringify(body) : body;
    const given =
      data === undefined
        ? headers
        : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(data), ...headers };
    const sent = http.request(
      new URL(path, url),
      { agent: false, method: method ?? (data === undefined ? "GET" : "POST"), headers: given },
      resolve,
    );
    sent.on("error", reject);
    sent.setTimeout(SILENCE_MS, () => sent.destroy(new Error(`${path}: the server said nothing for ${SILENCE_MS} ms`)));
    sent.end(data);
  });
}

// { status, headers, body }; `json()` reads the body.
export async function request(url, path, options) {
  const response = await send(url, path, options);
  response.setEncoding("utf8");
  let body = "";
  for await (const part of response) body += part;
  return { status: response.statusCode, headers: response.headers, body, json: () => JSON.parse(body) };
}

// A stream of events. `events` gives { data, at }: the text after "data: " and when it came, in milliseconds. It throws
// when the connection breaks, and `response.destroy()` breaks it.
export async function open_stream(url, path, body, headers = {}) {
  const response = await send(url, path, { body: { stream: true, ...body }, headers });
  if (response.statusCode !== 200) {
    let text = "";
    for await (const part of response) text += part;
    throw new Error(`status ${response.statusCode}: ${text}`);
  }
  return { response, events: events_of(response) };
}

async function* events_of(response) {
  response.setEncoding("utf8");
  let rest = "";
  for await (const part of response) {
    const at = performance.now();
    const blocks = (rest + part).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      if (!block.startsWith("data: ") || block.includes("\n")) throw new Error(`not an event of this API: ${block}`);
      yield { data: block.slice("data: ".length), at };
    }
  }
  if (rest !== "") throw new Error(`the stream ends within an event: ${rest}`);
}

// All chunks of a stream to its end, which must be [DONE].
export async function read_stream(url, path, body) {
  const { events } = await open_stream(url, path, body);
  const data = [];
  for await (const event of events) data.push(event.data);
  if (data.pop() !== "[DONE]") throw new Error(`the stream does not end with [DONE]: ${data.at(-1)}`);
  return data.map((text) => JSON.parse(text));
}
