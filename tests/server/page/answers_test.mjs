// Answers on the page: their tokens, margins and digests, replays, and stopping.
import assert from "node:assert/strict";
import { until_idle } from "../support/server.mjs";
import { ask } from "./browser.mjs";
import { command_line_answer, page_test, shared } from "./setup.mjs";

const QUESTION = "Tom has 3 boxes of 12 pens. He gives away 7 pens and then buys 10 more. How many pens does he have?";
const UNSURE_QUESTION = "A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?";

// The same question without the page, in one piece.
async function asked_directly(question) {
  const body = {
    messages: [{ role: "user", content: question }],
    temperature: 0,
    seed: 0,
    logprobs: true,
    top_logprobs: 5,
    return_token_ids: true,
    digest: true,
  };
  const headers = { "Content-Type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(`${shared.server.url}/v1/chat/completions`, request)).json();
}

const margin_of = ({ top_logprobs: [first, second] }) => first.logprob - second.logprob;
const level_of = (margin) => (margin < 0.125 ? "tie" : margin < 1 ? "close" : "clear");

page_test("the answer and its digest are those of the command line", {}, async (page) => {
  const expected = command_line_answer(QUESTION);
  const turn = await ask(page, QUESTION);
  assert.equal(await turn.locator(".tokens").textContent(), expected.text);
  assert.equal(await turn.locator(".token").count(), expected.tokens.length);
  assert.equal(await page.locator("#digest").textContent(), expected.digest);
  const fingerprint = await page.locator("#fingerprint").textContent();
  assert.ok(fingerprint.startsWith(`fma-1-${expected.model_digest.slice(0, 16)}-`), fingerprint);
});

page_test("another question has another digest", {}, async (page) => {
  await ask(page, "What is 48 + 27?");
  assert.notEqual(await page.locator("#digest").textContent(), command_line_answer("What is 48 + 28?").digest);
});

page_test("a seed and a temperature give what they give on the command line", {}, async (page) => {
  const expected = command_line_answer(UNSURE_QUESTION, ["--temperature", "1.5", "--seed", "7", "--max-tokens", "40"]);
  await page.getByLabel("Temperature").fill("1.5");
  await page.getByLabel("Seed").fill("7");
  await page.getByLabel("Max tokens").fill("40");
  const turn = await ask(page, UNSURE_QUESTION);
  assert.equal(await turn.locator(".token").count(), expected.tokens.length);
  assert.equal(await page.locator("#digest").textContent(), expected.digest);
});

page_test("each token has the level of its margin, in colour and underline", {}, async (page) => {
  const direct = (await asked_directly(UNSURE_QUESTION)).choices[0];
  const turn = await ask(page, UNSURE_QUESTION);
  const shown = await turn.locator(".token").evaluateAll((tokens) =>
    tokens.map((token) => {
      const { backgroundColor, textDecorationStyle, textDecorationLine } = getComputedStyle(token);
      const opacity = Number(/\/ ([\d.]+)\)$/.exec(backgroundColor)?.[1] ?? 1);
      return { level: token.dataset.level, line: textDecorationLine === "underline" && textDecorationStyle, opacity };
    }),
  );
  const margins = direct.logprobs.content.map(margin_of);
  assert.deepEqual(
    shown.map(({ level }) => level),
    margins.map(level_of),
  );
  const underlines = { tie: "wavy", close: "dotted", clear: false };
  for (const level of Object.keys(underlines)) assert.ok(margins.map(level_of).includes(level), `no token is ${level}`);
  for (const { level, line } of shown) assert.equal(line, underlines[level]);
  const by_margin = shown.map(({ opacity }, i) => ({ opacity, margin: margins[i] }));
  by_margin.sort((a, b) => a.margin - b.margin);
  assert.ok(by_margin[0].opacity > 0.8);
  for (const { margin, opacity } of by_margin) assert.equal(opacity > 0, margin < 4, `${opacity} at ${margin}`);
  by_margin.reduce((smaller, larger) => {
    assert.ok(larger.opacity <= smaller.opacity, `a margin of ${larger.margin} stands out more than ${smaller.margin}`);
    return larger;
  });
});

page_test("pointing at a token tells id, log-probability, margin and alternatives", {}, async (page) => {
  const direct = (await asked_directly(QUESTION)).choices[0];
  const turn = await ask(page, QUESTION);
  const margins = direct.logprobs.content.map(margin_of);
  const at = margins.indexOf(Math.min(...margins));
  const entry = direct.logprobs.content[at];
  await turn.locator(".token").nth(at).hover();
  const card = page.locator("#token-card");
  const facts = await card.locator("dd").allTextContents();
  const minus = (value, digits) =>
    value
      .toFixed(digits)
      .replace(/^-(0\.0+)$/, "$1")
      .replace("-", "−");
  assert.equal(facts[0], String(direct.token_ids[at]));
  assert.ok(facts[1].startsWith(minus(entry.logprob, 4)), facts[1]);
  assert.ok(facts[2].startsWith(margin_of(entry).toFixed(4)), facts[2]);
  const alternatives = await card.locator("tr td:last-child").allTextContents();
  assert.deepEqual(
    alternatives,
    entry.top_logprobs.map(({ logprob }) => minus(logprob, 3)),
  );
  assert.equal(await card.locator("tr[aria-current]").count(), 1);
  await page.mouse.move(0, 0);
  await card.waitFor({ state: "hidden" });
});

page_test("a replay is equal bit for bit", {}, async (page) => {
  const turn = await ask(page, QUESTION);
  await turn.getByRole("button", { name: "Replay" }).click();
  await turn.locator(".verdict[data-state=equal]").waitFor();
  assert.match(await turn.locator(".verdict").textContent(), /^Equal bit for bit: \d+ tokens, the same digest$/);
});

// The replay's events with one digit of one digest changed, chosen by `pick(digests)`.
function with_changed_digit(pick) {
  let requests = 0;
  return async (page) =>
    page.route("**/v1/chat/completions", async (route) => {
      if (++requests === 1) return route.continue();
      const response = await route.fetch();
      const body = await response.text();
      const digest = pick(body.match(/(?<="digest":"tree-1:)[0-9a-f]{64}/g));
      const changed = (digest[0] === "0" ? "1" : "0") + digest.slice(1);
      return route.fulfill({ response, body: body.replace(`:${digest}"`, `:${changed}"`) });
    });
}

for (const [name, pick, words] of [
  ["one bit after five tokens", (digests) => digests[4], /^Different from token 5 on\./],
  ["one bit of the last digest", (digests) => digests.at(-1), /^Different at the end\./],
]) {
  const before = with_changed_digit(pick);
  page_test(`a replay that differs in ${name} is called different`, { before }, async (page) => {
    const turn = await ask(page, QUESTION);
    await turn.getByRole("button", { name: "Replay" }).click();
    await turn.locator(".verdict[data-state=different]").waitFor();
    assert.match(await turn.locator(".verdict").textContent(), words);
  });
}

page_test("a second question is sent with the conversation before it", {}, async (page) => {
  const first = await ask(page, "What is 48 + 27?");
  const answer = await first.locator(".tokens").textContent();
  await page.getByLabel("System message").fill("Be brief.");
  const sent = page.waitForRequest("**/v1/chat/completions");
  const second = await ask(page, "What is 12 + 30?");
  assert.deepEqual((await sent).postDataJSON().messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "What is 48 + 27?" },
    { role: "assistant", content: answer },
    { role: "user", content: "What is 12 + 30?" },
  ]);
  assert.notEqual(await second.locator(".tokens").textContent(), "");
});

// The model's answers end soon; this one goes on to the end of its context.
const endless = async (page) =>
  page.route("**/v1/chat/completions", (route) => {
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) });
  });

// Presses Stop with the twentieth token, however fast the server and slow the test.
function stop_at_twenty() {
  const observer = new MutationObserver(() => {
    if (document.querySelectorAll(".tokens .token").length < 20) return;
    observer.disconnect();
    document.querySelector("#stop").click();
  });
  observer.observe(document.querySelector("#conversation"), { childList: true, subtree: true });
}

page_test("Stop ends an answer, and what came of it can be replayed", { before: endless }, async (page) => {
  await page.evaluate(stop_at_twenty);
  const turn = await ask(page, QUESTION);
  assert.equal(await turn.locator(".token").count(), 20);
  assert.match(await turn.locator(".count").textContent(), /^20 tokens.*, stopped$/);
  await until_idle(shared.server.url);
  await turn.getByRole("button", { name: "Replay" }).click();
  await turn.locator(".verdict[data-state=equal]").waitFor();
  assert.equal(await turn.locator(".verdict").textContent(), "Equal bit for bit as far as it went: 20 tokens");
  assert.equal(await turn.locator(".token").count(), 20);
});
