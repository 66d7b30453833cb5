// What the page makes of a server that loads, wants a key, refuses, or has no chat template.
import assert from "node:assert/strict";
import { test } from "node:test";
import { model, shared_setup, tool } from "./arguments.mjs";
import { ask, ready, start_asking, visit } from "./browser.mjs";
import { start_server, without_chat_template } from "./server.mjs";

const shared = shared_setup();
const on_page = (options, run) => visit(shared.browser, shared.server.url, options, run);

test("model and limits are told, and the fingerprint before the first answer", () => on_page({}, async (page) => {
  await ready(page);
  const [card] = (await (await fetch(`${shared.server.url}/v1/models`)).json()).data;
  assert.equal(await page.locator("#status").textContent(), `${card.id}, up to ${card.max_model_len.toLocaleString("en")} tokens`);
  assert.equal(await page.locator("#fingerprint").textContent(), card.system_fingerprint);
}));

test("while the model loads the page says so and waits", () => {
  let asked = 0;
  const before = (page) => page.route("**/health", (route) => (++asked <= 2 ? route.fulfill({ status: 503 }) : route.continue()));
  return on_page({ before, expected_statuses: [503] }, async (page) => {
    await page.getByText("The model is loading").waitFor();
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await ready(page);
    assert.equal(asked, 3);
    assert.ok(await page.getByRole("button", { name: "Send" }).isEnabled());
  });
});

test("the server's errors are shown in its words, and the question is kept", () => on_page({ expected_statuses: [400] }, async (page) => {
  await ready(page);
  const question = "How many apples are left? ".repeat(400);
  const [response, turn] = await Promise.all([page.waitForResponse("**/v1/chat/completions"), start_asking(page, question)]);
  const { error } = await response.json();
  assert.equal(response.status(), 400);
  assert.equal(await turn.getByRole("alert").textContent(), error.message);
  assert.equal(await page.getByLabel("Your message").inputValue(), question);
  const sent = page.waitForRequest("**/v1/chat/completions");
  await ask(page, "What is 48 + 27?");
  assert.equal((await sent).postDataJSON().messages.length, 1, "what failed is not part of the conversation");
}));

test("a setting that makes no sense is not sent", () => on_page({}, async (page) => {
  await ready(page);
  page.on("request", (request) => assert.notEqual(request.method(), "POST"));
  await page.getByLabel("Temperature").fill("-1");
  await page.getByLabel("Your message").fill("What is 48 + 27?");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.name), "temperature");
}));

test("a server that goes away is told, and found again", async () => {
  const server = await start_server(tool);
  const { port } = new URL(server.url);
  await visit(shared.browser, server.url, {}, async (page) => {
    await ask(page, "What is 48 + 27?");
    await server.stop();
    page.removeAllListeners("console");  // each attempt in vain is an error there
    const turn = await start_asking(page, "What is 12 + 30?");
    await turn.getByRole("alert").getByText("The server cannot be reached.").waitFor();
    const again = await start_server(tool, [], port);
    await ask(page, "What is 12 + 30?");
    await again.stop();
  });
});

test("a key is asked for, kept for the tab alone, and sent", async () => {
  const server = await start_server(tool, ["--api-key", "correct-horse"]);
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
      const kept = await page.evaluate(() => ({ session: Object.values(sessionStorage), local: localStorage.length, cookies: document.cookie }));
      assert.deepEqual(kept, { session: ["correct-horse"], local: 0, cookies: "" });
      await page.reload();
      await ready(page);
    });
  } finally {
    await server.stop();
  }
});

test("a model without a chat template goes on with plain text", async () => {
  const copy = without_chat_template(model);
  const server = await start_server(tool, ["--model", copy.folder]);
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
    copy.remove();
  }
});
