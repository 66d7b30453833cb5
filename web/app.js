// The page: wires the server's state, the settings and the conversation to what is on it.
import { saved_key, served_model } from "./api.js";
import { Conversation } from "./conversation.js";
import { ReceiptPanel } from "./receipt.js";
import { Settings } from "./settings.js";
import { TokenCard } from "./token_card.js";

const RETRY_MS = 1000;
const NO_TEMPLATE = /chat template/;

const find = (id) => document.getElementById(id);
const settings = new Settings(find("settings"), find("settings-form"));
const conversation = new Conversation(find("conversation"), find("turn-template"), {
  progress,
  busy,
  failed,
  receipt: show_receipt,
});
const card = new TokenCard(find("token-card"), find("conversation"));
const panel = new ReceiptPanel(find("receipt"));
const served = { model: null, timer: 0 };

function show_status(state, words) {
  find("status").dataset.state = state;
  find("status").textContent = words;
}

function show_proof(id, value) {
  if (!value) return;
  find(id).textContent = value;
  document.querySelector(`[data-copy=${id}]`).disabled = false;
}

// A digest at a glance: one bar per byte, so that two of them can be compared without reading.
function digest_bars(digest) {
  const bytes = digest.split(":").pop().match(/../g).map((pair) => parseInt(pair, 16));
  return bytes.map((byte, i) => `M${3 * i + 1.5} 16v-${(2 + (14 * byte) / 255).toFixed(1)}`).join("");
}

function progress(answer) {
  show_proof("fingerprint", answer.fingerprint);
  show_proof("digest", answer.digest);
  if (answer.digest) find("digest-bars").setAttribute("d", digest_bars(answer.digest));
}

function show_receipt(receipt) {
  panel.show(receipt);
}

function serve_with(model) {
  served.model = model;
  for (const button of document.querySelectorAll("#send, #examples button")) button.disabled = model === null;
}

function busy(working) {
  // Not `disabled`, which would take the focus from the button that was just pressed.
  for (const button of document.querySelectorAll(".replay")) button.setAttribute("aria-disabled", working);
  const leaving = document.activeElement === find("stop");
  find("send").hidden = working;
  find("stop").hidden = !working;
  if (leaving) find("question").focus();
}

function failed(error, turn) {
  const no_template = settings.mode === "chat" && error.status === 400 && NO_TEMPLATE.test(error.message);
  turn.show_error(error.message, no_template ? plain_text_button(turn.question) : null);
  if (turn.answer.text === "" && find("question").value === "") find("question").value = turn.question;
  if ([0, 401, 503].includes(error.status)) find_server();
}

function plain_text_button(question) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Let it go on with plain text";
  button.addEventListener("click", () => {
    settings.mode = "completion";
    button.disabled = true;
    ask(question);
  });
  return button;
}

function ask(question) {
  if (conversation.busy || served.model === null || !question.trim() || !settings.check()) return;
  find("welcome").hidden = true;
  find("question").value = "";
  conversation.ask(question, settings.request(served.model, conversation.answered, question));
}

// Asks until the server is ready to answer; says what it waits for.
async function find_server() {
  clearTimeout(served.timer);
  serve_with(null);
  if (find("status").dataset.state === "ready") show_status("waiting", "Looking for the server");
  try {
    const model = await served_model();
    serve_with(model);
    show_proof("fingerprint", model.system_fingerprint);
    show_status("ready", `${model.id}, up to ${model.max_model_len.toLocaleString("en")} tokens`);
  } catch (error) {
    if (error.status === 401) {
      show_status("refused", saved_key() ? "The API key is refused" : "An API key is needed");
    } else {
      show_status("waiting", error.status === 503 ? "The model is loading" : "The server does not answer");
      served.timer = setTimeout(find_server, RETRY_MS);
    }
  }
}

async function copy(button) {
  const source = find(button.dataset.copy);
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(source.textContent);
  } else {
    // Browsers keep the clipboard from pages that come over plain HTTP from another machine; the selection they leave.
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function on_click(selector, action) {
  for (const button of document.querySelectorAll(selector)) button.addEventListener("click", () => action(button));
}

on_click(".copy", copy);
on_click("#examples button", (button) => ask(button.textContent));
on_click("#stop", () => conversation.stop());
on_click("#open-settings", () => settings.open());
on_click("#open-receipt", () => panel.open());
on_click("#close-settings", () => settings.close());
on_click("#restart", () => {
  conversation.clear();
  card.hide();
  find("welcome").hidden = false;
  settings.close();
  find("question").focus();
});
find("settings-form").key.addEventListener("change", find_server);
find("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  ask(find("question").value);
});
find("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  find("composer").requestSubmit();
});
find("question").focus({ preventScroll: true });
find_server();
