// One question and its answer on the page.
import { compare } from "./replay.js";
import { Answer, level_of, tint_of } from "./tokens.js";

const ENDINGS = { length: ", cut off at the limit", stopped: ", stopped" };
const MOVES = {
  ArrowRight: (span) => span.nextElementSibling,
  ArrowLeft: (span) => span.previousElementSibling,
  Home: (span) => span.parentElement.firstElementChild,
  End: (span) => span.parentElement.lastElementChild,
};

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function token_element(token, first) {
  const span = document.createElement("span");
  span.token = token;
  span.className = "token";
  span.textContent = token.text;
  span.dataset.level = level_of(token.margin);
  span.style.setProperty("--tint", tint_of(token.margin).toFixed(3));
  // What shows nothing by itself gets a mark, so that it can be pointed at.
  if (/^\n+$/.test(token.text)) span.classList.add("line-end");
  else if (token.text === "") span.classList.add("partial");
  span.tabIndex = first ? 0 : -1;
  return span;
}

// An answer is one stop of the Tab key, however many tokens it has; arrow keys move within it.
function walk(event) {
  const next = MOVES[event.key]?.(event.target);
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function make_tab_stop({ target }) {
  target.parentElement.querySelector("[tabindex='0']").tabIndex = -1;
  target.tabIndex = 0;
}

export class Turn {
  constructor(template, question, request) {
    this.question = question;
    this.request = request;
    this.answer = new Answer();
    this.failed = false;
    this.element = template.content.firstElementChild.cloneNode(true);
    this.#part("question").textContent = question;
    this.#tokens.addEventListener("keydown", walk);
    this.#tokens.addEventListener("focusin", make_tab_stop);
    this.#part("weakest").addEventListener("click", () => this.#tokens.children[this.answer.weakest].focus());
  }

  #part(name) {
    return this.element.querySelector(`.${name}`);
  }

  get #tokens() {
    return this.#part("tokens");
  }

  get replay_button() {
    return this.#part("replay");
  }

  get receipt_button() {
    return this.#part("receipt");
  }

  add(event) {
    for (const token of this.answer.add(event)) {
      this.#tokens.append(token_element(token, !this.#tokens.hasChildNodes()));
    }
  }

  finish() {
    const answer = this.answer;
    this.#tokens.setAttribute("aria-busy", "false");
    if (answer.tokens.length === 0) return;
    const prompt = answer.usage ? `prompt ${answer.usage.prompt_tokens.toLocaleString("en")}, answer ` : "";
    const ties = answer.near_ties ? `, ${plural(answer.near_ties, "near-tie")}` : "";
    const ending = ENDINGS[answer.stopped ? "stopped" : answer.ending] ?? "";
    this.#part("count").textContent = `${prompt}${plural(answer.tokens.length, "token")}${ties}${ending}`;
    const weakest = answer.tokens[answer.weakest];
    this.#part("weakest").hidden = !weakest;
    if (weakest) this.#part("weakest").textContent = `smallest margin ${weakest.margin.toFixed(3)}`;
    this.receipt_button.hidden = !answer.receipt;
    this.#part("facts").hidden = false;
  }

  show_error(words, action) {
    this.failed = true;
    const error = this.#part("error");
    error.textContent = words;
    error.hidden = false;
    if (action) error.append(" ", action);
  }

  show_comparison(replayed, complete) {
    const { state, words } = compare(this.answer, replayed, complete);
    this.show_verdict(state, words);
    return state;
  }

  show_verdict(state, words) {
    const verdict = this.#part("verdict");
    verdict.dataset.state = state;
    verdict.textContent = words;
  }
}
