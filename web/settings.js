// What the reader set, and the request it makes of a question.
import { save_key, saved_key } from "./api.js";

const ALTERNATIVES = 5;
const COMPLETION_TOKENS = 128; // the interface's own default for plain text is 16, too few to see anything
const WIDE = matchMedia("(min-width: 64rem)");

export class Settings {
  #dialog;
  #form;

  constructor(dialog, form) {
    this.#dialog = dialog;
    this.#form = form;
    form.key.value = saved_key();
    form.key.addEventListener("change", () => form.key.validity.valid && save_key(form.key.value));
    form.addEventListener("change", () => this.#follow_mode());
    form.addEventListener("submit", (event) => event.preventDefault());
    WIDE.addEventListener("change", () => this.#lay_out());
    this.#lay_out();
  }

  get mode() {
    return this.#form.mode.value;
  }

  set mode(value) {
    this.#form.mode.value = value;
    this.#follow_mode();
  }

  // Beside the conversation where there is room, over it where there is none.
  #lay_out() {
    this.#dialog.close();
    if (WIDE.matches) this.#dialog.show();
  }

  open() {
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  close() {
    if (!WIDE.matches) this.#dialog.close();
  }

  #follow_mode() {
    const plain = this.mode === "completion";
    this.#form.querySelector("#system-field").hidden = plain;
    this.#form.max_tokens.placeholder = plain ? COMPLETION_TOKENS : "model's own";
  }

  // Whether every field can be sent. If not, the reader is shown which.
  check() {
    if (this.#form.checkValidity()) return true;
    this.open();
    this.#form.reportValidity();
    return false;
  }

  request({ id: model, receipts: receipt }, turns, question) {
    const { system, temperature, top_p, seed, max_tokens } = this.#form;
    const limit = max_tokens.value || (this.mode === "completion" ? COMPLETION_TOKENS : "");
    const body = {
      model,
      temperature: Number(temperature.value),
      top_p: Number(top_p.value),
      seed: Number(seed.value),
      ...(limit && { max_tokens: Number(limit) }),
      stream: true,
      stream_options: { include_usage: true },
      return_token_ids: true,
      digest: true,
      ...(receipt && { receipt }),
    };
    if (this.mode === "completion") {
      return { path: "v1/completions", body: { ...body, prompt: question, logprobs: ALTERNATIVES } };
    }
    const messages = system.value ? [{ role: "system", content: system.value }] : [];
    for (const turn of turns) {
      messages.push({ role: "user", content: turn.question }, { role: "assistant", content: turn.answer.text });
    }
    messages.push({ role: "user", content: question });
    return { path: "v1/chat/completions", body: { ...body, messages, logprobs: true, top_logprobs: ALTERNATIVES } };
  }
}
