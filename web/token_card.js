// The card that tells about one token: shown beside the token under the pointer or the one with the focus.

const GAP = 6;
const LINGER_MS = 200;

// What rounds to zero has no sign.
const signed = (value, digits) => value.toFixed(digits).replace(/^-(?=0\.0*$)/, "").replace("-", "−");
const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;
const visible = (text) => text.replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "⇥");

function element(name, text, class_name) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (class_name) made.className = class_name;
  return made;
}

const LEVELS = { tie: "a near-tie", close: "close", clear: "clear" };

function facts_of(token, level) {
  const facts = {
    id: token.id ?? "not told",
    "log-probability": `${signed(token.logprob, 4)} (${percent(token.logprob)})`,
    margin: Number.isFinite(token.margin) ? `${token.margin.toFixed(4)}, ${LEVELS[level]}` : "not told",
  };
  const list = element("dl");
  for (const [name, value] of Object.entries(facts)) list.append(element("dt", name), element("dd", value));
  return list;
}

function row_of(other, chosen) {
  const row = element("tr");
  if (chosen) row.setAttribute("aria-current", "true");
  const bar = element("span", "", "bar");
  bar.style.setProperty("--share", Math.exp(other.logprob));
  const share = element("td", percent(other.logprob));
  share.append(bar);
  row.append(element("th", visible(other.text)), share, element("td", signed(other.logprob, 3)));
  return row;
}

function alternatives_of(token) {
  const table = element("table");
  table.append(element("caption", "Most likely here"));
  const chosen = token.top.findIndex(({ text, logprob }) => text === token.name && logprob === token.logprob);
  table.append(...token.top.map((other, i) => row_of(other, i === chosen)));
  return table;
}

// Below the token, above it, or under the facts of its turn: the first place that is in view and hides neither these
// facts, where a replay tells its verdict, nor the digest. Else wherever it is in view.
function place(card, token) {
  const { left, top, bottom } = token.getClientRects()[0] ?? token.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = card;
  const facts = token.closest(".turn").querySelector(".facts").getBoundingClientRect();
  const header = document.querySelector(".top").getBoundingClientRect();
  const places = [bottom + GAP, top - GAP - height, facts.bottom + GAP];
  const in_view = (at) => at >= GAP && at + height + GAP <= innerHeight;
  const hides = (at, box) => at < box.bottom && at + height > box.top;
  const best = places.find((at) => in_view(at) && !hides(at, facts) && !hides(at, header));
  card.style.left = `${Math.max(GAP, Math.min(left, document.documentElement.clientWidth - width - GAP))}px`;
  card.style.top = `${best ?? places.find(in_view) ?? GAP}px`;
}

export class TokenCard {
  #card;
  #shown = null;
  #timer = 0;

  // Follows pointer and focus over the tokens in `container`.
  constructor(card, container) {
    this.#card = card;
    for (const type of ["pointerover", "focusin"]) container.addEventListener(type, ({ target }) => this.#show(target));
    for (const type of ["pointerout", "focusout"]) container.addEventListener(type, () => this.#hide_soon());
    card.addEventListener("pointerenter", () => clearTimeout(this.#timer));
    card.addEventListener("pointerleave", () => this.#hide_soon());
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
    document.addEventListener("scroll", () => this.#shown && place(card, this.#shown), { passive: true });
  }

  hide() {
    clearTimeout(this.#timer);
    this.#shown?.removeAttribute("data-shown");
    this.#shown = null;
    this.#card.hidden = true;
  }

  #show(target) {
    const { token } = target;
    if (!token) return;
    this.hide();
    this.#shown = target;
    target.dataset.shown = "";
    const facts = facts_of(token, target.dataset.level);
    this.#card.replaceChildren(element("p", visible(token.name)), facts, alternatives_of(token));
    this.#card.hidden = false;
    place(this.#card, target);
  }

  #hide_soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#shown !== document.activeElement && this.hide(), LINGER_MS);
  }
}
