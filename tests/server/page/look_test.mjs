// How the page looks and is used: sizes, colours, keyboard, and what a strict content security policy demands.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, contrasts, ready, visit } from "./browser.mjs";
import { page_test, shared } from "./setup.mjs";

const SMALL = { width: 360, height: 640 };
const PHONE = { width: 390, height: 844 };
const LAPTOP = { width: 1280, height: 813 };
const QUESTION = "A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?";
const MAX_BYTES = 50_000;
const AA = 4.5; // the contrast that WCAG 2 asks of text
const TEXTS =
  "h1, h2, #status, dt, code, .question, .token, .count, .facts button, .verdict, #send, label, legend, .note, " +
  "#restart, #token-card dt, #token-card td";

test("the page is small, and nothing in it needs a looser policy than its own files", async () => {
  const bytes = new Map();
  const before = async (page) =>
    page.on("response", async (response) => {
      if (response.request().resourceType() !== "fetch") bytes.set(response.url(), (await response.body()).length);
    });
  await visit(shared.browser, shared.server.url, { before }, async (page) => {
    await ready(page);
    await page.waitForLoadState("networkidle");
  });
  const policy = (await fetch(shared.server.url)).headers.get("Content-Security-Policy");
  assert.match(policy, /default-src 'self'/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  const total = [...bytes.values()].reduce((sum, size) => sum + size, 0);
  assert.ok(bytes.size >= 8 && total < MAX_BYTES, `${bytes.size} files with ${total} bytes`);
});

for (const [width, height] of [
  [360, 640],
  [768, 1024],
  [1400, 900],
]) {
  const viewport = { width, height };
  page_test(`digest, fingerprint, composer and cards are in view at ${width} pixels`, { viewport }, async (page) => {
    await ask(page, QUESTION);
    const turn = await ask(page, "Tell me a very long story about ".concat("w".repeat(80)));
    await turn.locator(".token").last().hover();
    for (const id of ["digest", "fingerprint", "question", "send", "token-card"]) {
      const box = await page.locator(`#${id}`).boundingBox();
      const fits = box.x >= 0 && box.x + box.width <= width && box.y >= 0 && box.y + box.height <= height;
      assert.ok(fits, `${id}: ${JSON.stringify(box)}`);
    }
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
  });
}

page_test("all settings and the legend are in view on a laptop", { viewport: LAPTOP }, async (page) => {
  await ready(page);
  const heights = await page.locator("#settings").evaluate((column) => [column.scrollHeight, column.clientHeight]);
  assert.ok(heights[0] <= heights[1], `${heights[0]} of ${heights[1]} pixels`);
});

const overlap = (a, b) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

for (const viewport of [LAPTOP, PHONE]) {
  page_test(`at ${viewport.width} pixels no card hides verdict or digest`, { viewport }, async (page) => {
    const turn = await ask(page, QUESTION);
    await turn.getByRole("button", { name: "Replay" }).click();
    await turn.locator(".verdict[data-state=equal]").waitFor();
    const count = await turn.locator(".token").count();
    for (const at of [0, Math.floor(count / 2), count - 1]) {
      await turn.locator(".token").nth(at).focus();
      const card = await page.locator("#token-card").boundingBox();
      for (const hidden of [turn.locator(".verdict"), page.locator("#digest")])
        assert.ok(!overlap(card, await hidden.boundingBox()), `the card of token ${at} hides ${hidden}`);
    }
  });
}

page_test("a log-probability that rounds to zero has no sign", {}, async (page) => {
  const turn = await ask(page, QUESTION);
  const at = await turn
    .locator(".token")
    .evaluateAll((all) => all.findIndex(({ token }) => token.logprob < 0 && token.logprob > -0.00004));
  assert.notEqual(at, -1, "no token is that certain");
  await turn.locator(".token").nth(at).focus();
  const told = await page.locator("#token-card").textContent();
  assert.match(told, /log-probability0\.0000 \(100\.0 %\)/);
  assert.doesNotMatch(told, /[-−]0\.0+(?!\d)/);
});

for (const colorScheme of ["light", "dark"]) {
  page_test(`text stands out in the ${colorScheme} scheme`, { colorScheme }, async (page) => {
    const turn = await ask(page, QUESTION);
    await turn.getByRole("button", { name: "Replay" }).click();
    await turn.locator(".verdict[data-state=equal]").waitFor();
    await turn.locator(".token").first().hover();
    for (const selector of TEXTS.split(", ")) {
      const found = await contrasts(page.locator(`${selector}:visible`));
      assert.ok(found.length > 0, `${selector} was not found`);
      for (const { text, ratio } of found) assert.ok(ratio >= AA, `${selector} '${text}': ${ratio.toFixed(2)}`);
    }
  });
}

page_test(
  "the schemes differ, and text of one would not stand out in the other",
  { colorScheme: "light" },
  async (page) => {
    await ready(page);
    const ink = await page.evaluate(() => getComputedStyle(document.body).color);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.evaluate((color) => (document.querySelector("h1").style.color = color), ink);
    const [{ ratio }] = await contrasts(page.locator("h1"));
    assert.ok(ratio < AA, `${ratio}`);
  },
);

page_test("an answer is one stop of the Tab key, and arrow keys walk its tokens", {}, async (page) => {
  const turn = await ask(page, QUESTION);
  const tokens = turn.locator(".token");
  await turn.locator(".weakest").focus();
  await page.keyboard.press("Shift+Tab");
  const focused = () => tokens.evaluateAll((all) => all.indexOf(document.activeElement));
  assert.equal(await focused(), 0);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(), 2);
  assert.ok(await page.locator("#token-card").isVisible());
  await page.keyboard.press("End");
  assert.equal(await focused(), (await tokens.count()) - 1);
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#token-card").isHidden());
  await page.keyboard.press("Tab");
  assert.ok(await turn.locator(".weakest").evaluate((button) => button === document.activeElement));
});

page_test(
  "a tap shows a token's card until the next tap elsewhere",
  { hasTouch: true, viewport: SMALL },
  async (page) => {
    const turn = await ask(page, QUESTION);
    await turn.locator(".token").nth(3).tap();
    await page.locator("#token-card").waitFor();
    await page.waitForTimeout(500); // longer than a card lingers for a pointer that left
    assert.ok(await page.locator("#token-card").isVisible());
    await page.locator("h1").tap();
    await page.locator("#token-card").waitFor({ state: "hidden" });
  },
);

page_test("every control has a name, and readers are told of the answer once it is whole", {}, async (page) => {
  const turn = await ask(page, QUESTION);
  const nameless = await page
    .locator("button:visible, input:visible, textarea:visible")
    .evaluateAll((controls) =>
      controls
        .filter((control) => !(control.labels?.[0] ?? control).textContent.trim() && !control.ariaLabel)
        .map((control) => control.outerHTML),
    );
  assert.deepEqual(nameless, []);
  assert.equal(await turn.locator(".tokens").getAttribute("aria-busy"), "false");
});

page_test("nothing moves for those who ask for less motion", { reducedMotion: "reduce" }, async (page) => {
  await ready(page);
  const animation = () =>
    page.evaluate(() => {
      document.querySelector("#conversation").innerHTML = "<p class='tokens' aria-busy='true'></p>";
      return getComputedStyle(document.querySelector(".tokens"), "::after").animationName;
    });
  assert.equal(await animation(), "none");
  await page.emulateMedia({ reducedMotion: "no-preference" });
  assert.equal(await animation(), "blink");
});

page_test(
  "the settings of a small screen open over the page and close with Escape",
  { viewport: SMALL },
  async (page) => {
    await ready(page);
    assert.ok(await page.getByLabel("Temperature").isHidden());
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Temperature").fill("0.5");
    await page.keyboard.press("Escape");
    assert.ok(await page.getByLabel("Temperature").isHidden());
    const sent = page.waitForRequest("**/v1/chat/completions");
    await ask(page, "What is 48 + 27?");
    assert.equal((await sent).postDataJSON().temperature, 0.5);
  },
);

page_test(
  "the copy button gives the whole digest",
  { permissions: ["clipboard-read", "clipboard-write"] },
  async (page) => {
    await ask(page, "What is 48 + 27?");
    await page.getByRole("button", { name: "Copy the digest" }).click();
    await page.getByText("Copied").waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^tree-1:[0-9a-f]{64}$/);
    assert.equal(copied, await page.locator("#digest").textContent());
  },
);
