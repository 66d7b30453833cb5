// The server's HTTP interface. What fails is a ServerError, in words.

export class ServerError extends Error {
  // `status` is HTTP's, or 0 where there was no answer at all.
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// For this tab alone.
export const saved_key = () => sessionStorage.getItem("api-key") ?? "";
export const save_key = (key) => sessionStorage.setItem("api-key", key);

const BROKEN_OFF = "The answer broke off.";
const HINTS = {
  0: "Is the server still running?",
  401: "Enter the API key in the settings.",
  429: "Try again in a moment.",
  503: "Try again in a moment.",
};

async function error_of(response) {
  const text = await response.text();
  let message = text.trim() || `The server answered with status ${response.status}.`;
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // A proxy's error page is no JSON; its text says what it can.
  }
  return new ServerError([message, HINTS[response.status]].filter(Boolean).join(" "), response.status);
}

const unreachable = (words) => new ServerError(`${words} ${HINTS[0]}`, 0);

// What the network refuses is told in `words`; what the reader stopped stays an AbortError.
async function reach(promise, words) {
  try {
    return await promise;
  } catch (error) {
    throw error.name === "AbortError" ? error : unreachable(words);
  }
}

async function request(path, options = {}) {
  const key = saved_key();
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const reply = fetch(path, { ...options, headers, cache: "no-store" });
  const response = await reach(reply, "No answer came.");
  if (!response.ok) throw await error_of(response);
  return response;
}

// The model's card, once the server has loaded it.
export async function served_model() {
  await request("health");
  const models = await (await request("v1/models")).json();
  return models.data[0];
}

const post = (path, body, signal) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

// Whether a receipt is true of the model that is served: { verdict, problem, proven, not_proven }.
export const verify = async (body) => (await post("v1/receipts/verify", body)).json();

// The events of a streamed answer as objects, up to [DONE].
export async function* events({ path, body }, signal) {
  const response = await post(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reach(reader.read(), BROKEN_OFF);
    if (done) throw unreachable(BROKEN_OFF);
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice("data:".length).trim();
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(event.error.message, response.status);
      yield event;
    }
  }
}
