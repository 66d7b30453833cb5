// What the page makes of a server that loads, wants a key, refuses, or has no chat template.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { ask, ready, start_asking, visit } from "./browser.mjs";
import { model, page_test, serve, shared } from "./setup.mjs";

page_test("model and limits are told, and the fingerprint before the first answer", {}, async (page) => {
  await ready(page);
  const [card] = (await (await fetch(`${shared.server.url}/v1/models`)).json()).data;
  const limit = card.max_model_len.toLocaleString("en");
  assert.equal(await page.locator("#status").textContent(), `${card.id}, up to ${limit} tokens`);
  assert.equal(await page.locator("#fingerprint").textContent(), card.system_fingerprint);
});

test("no question can be asked before the model is known, not even while the scripts load", async () => {
  const html = await (await fetch(shared.server.url)).text();
  const [examples] = /<ul id="examples">[^]*?<\/ul>/.exec(html);
  assert.equal(examples.match(/<button/g).length, 3);
  assert.equal(examples.match(/<button[^>]* disabled>/g)?.length, 3);
});

page_test("a chat's answer is as long as the model's own limit, unless one is given", {}, async (page) => {
  assert.equal(await page.getByLabel("Max tokens").getAttribute("placeholder"), "model's own");
  await page.getByLabel("Plain text to go on with").check();
  assert.equal(await page.getByLabel("Max tokens").getAttribute("placeholder"), "128");
});

test("while the model loads the page says so and waits", async () => {
  let asked = 0;
  const load = (route) => (++asked <= 2 ? route.fulfill({ status: 503 }) : route.continue());
  const before = (page) => page.route("**/health", load);
  await visit(shared.browser, shared.server.url, { before, expected_statuses: [503] }, async (page) => {
    await page.getByText("The model is loading").waitFor();
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await ready(page);
    assert.equal(asked, 3);
    assert.ok(await page.getByRole("button", { name: "Send" }).isEnabled());
  });
});

page_test(
  "the server's errors are shown in its words, and the question is kept",
  { expected_statuses: [400] },
  async (page) => {
    await ready(page);
    const question = "How many apples are left? ".repeat(400);
    const [response, turn] = await Promise.all([
      page.waitForResponse("**/v1/chat/completions"),
      start_asking(page, question),
    ]);
    const { error } = await response.json();
    assert.equal(response.status(), 400);
    assert.equal(await turn.getByRole("alert").textContent(), error.message);
    assert.equal(await page.getByLabel("Your message").inputValue(), question);
    const sent = page.waitForRequest("**/v1/chat/completions");
    await ask(page, "What is 48 + 27?");
    assert.equal((await sent).postDataJSON().messages.length, 1, "what failed is not part of the conversation");
  },
);

// The first answer, cut after six events and with `end` in place of the rest.
function with_broken_answer(end) {
  let answers = 0;
  return async (page) =>
    page.route("**/v1/chat/completions", async (route) => {
      if (++answers > 1) return route.continue();
      const response = await route.fetch();
      const events = (await response.text()).split("\n\n").slice(0, 6);
      return route.fulfill({ response, body: [...events, end].join("\n\n") });
    });
}

const IN_STREAM = 'data: {"error": {"message": "layer 3: a score is not finite", "code": 500}}\n\n';
for (const [how, end, words] of [
  ["with an error", IN_STREAM, "layer 3: a score is not finite"],
  ["without a word", "", "The answer broke off. Is the server still running?"],
]) {
  const before = with_broken_answer(end);
  page_test(`an answer that breaks off ${how} is no part of the conversation`, { before }, async (page) => {
    const turn = await ask(page, "What is 48 + 27?");
    assert.equal(await turn.getByRole("alert").textContent(), words);
    assert.ok((await turn.locator(".token").count()) > 0, "what came before stays");
    const sent = page.waitForRequest("**/v1/chat/completions");
    await ask(page, "What is 12 + 30?");
    assert.equal((await sent).postDataJSON().messages.length, 1);
  });
}

page_test("a setting that makes no sense is not sent", {}, async (page) => {
  await ready(page);
  page.on("request", (request) => assert.notEqual(request.method(), "POST"));
  await page.getByLabel("Temperature").fill("-1");
  await page.getByLabel("Your message").fill("What is 48 + 27?");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.name), "temperature");
});

test("a server that goes away is told, and found again", async () => {
  const server = await serve();
  await visit(shared.browser, server.url, {}, async (page) => {
    await ask(page, "What is 48 + 27?");
    await server.stop();
    page.removeAllListeners("console"); // each attempt in vain is an error there
    const turn = await start_asking(page, "What is 12 + 30?");
    await turn.getByRole("alert").getByText("No answer came. Is the server still running?").waitFor();
    const again = await serve([], server.port);
    await ask(page, "What is 12 + 30?");
    await again.stop();
  });
});

test("a key is asked for, kept for the tab alone, and sent", async () => {
  const server = await serve(["--api-key", "correct-horse"]);
  try {
    await visit(shared.browser, server.url, { expected_statuses: [401] }, async (page) => {
      await page.getByText("An API key is needed").waitFor();
      await page.getByLabel("API key").fill("wrong");
      await page.keyboard.press("Tab");
      await page.getByText("The API key is refused").waitFor();
      await page.getByLabel("API key").fill("correct-horse");
      await page.keyboard.press("Tab");
      const turn = await ask(page, "What is 48 + 27?");
      assert.match(await turn.locator(".tokens").textContent(), /Answer: 75$/);
      assert.deepEqual(await page.evaluate(() => Object.values(sessionStorage)), ["correct-horse"]);
      assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
      await page.reload();
      await ready(page);
    });
  } finally {
    await server.stop();
  }
});

// A copy of a checkpoint folder that has no chat template, there until the test ends.
function without_chat_template(original, running_test) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "reprofuse-page-"));
  running_test.after(() => fs.rmSync(folder, { recursive: true }));
  for (const name of fs.readdirSync(original)) {
    if (name !== "chat_template.jinja") fs.symlinkSync(path.join(original, name), path.join(folder, name));
  }
  return folder;
}

test("a model without a chat template goes on with plain text", async (running_test) => {
  const server = await serve(["--model", without_chat_template(model, running_test)]);
  try {
    await visit(shared.browser, server.url, { expected_statuses: [400] }, async (page) => {
      const turn = await start_asking(page, "Pens in the boxes: 3 x 12 =");
      assert.match(await turn.getByRole("alert").textContent(), /no chat template/);
      await turn.getByRole("button", { name: "Let it go on with plain text" }).click();
      const plain = page.locator(".turn").nth(1);
      await plain.locator(".tokens[aria-busy=false]").waitFor();
      assert.match(await plain.locator(".tokens").textContent(), /^ 3 x 10/);
      await plain.locator(".token").first().hover();
      assert.match(await page.locator("#token-card dd").nth(2).textContent(), /^\d+\.\d{4}, /);
      await plain.getByRole("button", { name: "Replay" }).click();
      await plain.locator(".verdict[data-state=equal]").waitFor();
    });
  } finally {
    await server.stop();
  }
});
