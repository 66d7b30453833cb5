// Receipts on the page: shown, downloaded, dropped, replayed and compared.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { ask, ready, visit } from "./browser.mjs";
import { page_test, serve, shared } from "./setup.mjs";

const QUESTION = "What is 48 + 27?";
const tool = process.argv[2];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "receipts-"));
after(() => fs.rmSync(folder, { recursive: true }));

// The servers that are started from now on sign.
const key = path.join(folder, "key");
execFileSync(tool, ["keys", "new", key]);
process.env.REPROFUSE_KEY = key;

const panel = (page) => page.locator("#receipt");

async function open_receipt(page) {
  const turn = await ask(page, QUESTION);
  await turn.getByRole("button", { name: "Receipt" }).click();
  await panel(page).waitFor();
  return turn;
}

async function download(page) {
  const [file] = await Promise.all([page.waitForEvent("download"), panel(page).getByText("Download").click()]);
  const saved = path.join(folder, `${Math.random()}.json`);
  await file.saveAs(saved);
  return saved;
}

// As if a reader had dragged a file of this text onto the page.
const drop = (page, text) =>
  page.evaluate((content) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([content], "receipt.json", { type: "application/json" }));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, text);

const verdict = (page, state) => panel(page).locator(`.receipt-verdict[data-state=${state}]`);

page_test("an answer's receipt is shown, and what is downloaded verifies", {}, async (page) => {
  await open_receipt(page);
  const digest = await page.locator("#digest").textContent();
  assert.ok((await panel(page).locator("dd").allTextContents()).includes(digest));
  const saved = await download(page);
  const told = execFileSync(tool, ["verify", saved], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  assert.match(told, /: equal\n/);
});

page_test("a receipt is replayed on this server, and what was proven is listed", {}, async (page) => {
  await open_receipt(page);
  await panel(page).getByRole("button", { name: "Replay it here" }).click();
  await verdict(page, "equal").waitFor();
  const lines = await panel(page).locator(".receipt-proof li").allTextContents();
  assert.ok(lines.some((line) => line.startsWith("Proven: logits")));
  assert.ok(lines.some((line) => line.startsWith("Not proven: ")));
});

page_test("a receipt that is dropped is replayed at once, and a false one is called so", {}, async (page) => {
  await open_receipt(page);
  const text = fs.readFileSync(await download(page), "utf8");
  await page.reload();
  await ready(page);
  await drop(page, text);
  await verdict(page, "equal").waitFor();
  const receipt = JSON.parse(text);
  const statement = JSON.parse(Buffer.from(receipt.payload, "base64"));
  statement.predicate.answer.tokens[0] ^= 1;
  const payload = Buffer.from(JSON.stringify(statement)).toString("base64");
  await drop(page, JSON.stringify({ ...receipt, payload }));
  await verdict(page, "different").waitFor();
  for (const nothing of ["no JSON", "[]", "null", '{"payload":"x"}']) {
    await drop(page, nothing);
    await panel(page).getByText("This is no receipt.").waitFor();
    assert.equal(await panel(page).locator(".receipt-shown").isVisible(), false);
  }
});

page_test("a verdict that comes late is not painted over the receipt that is shown by then", {}, async (page) => {
  await open_receipt(page);
  const text = fs.readFileSync(await download(page), "utf8");
  let answer_first;
  const held = new Promise((resolve) => (answer_first = resolve));
  let asked = 0;
  await page.route("**/v1/receipts/verify", async (route) => {
    if (asked++ === 0) await held;
    await route.continue();
  });
  const altered = JSON.parse(text);
  altered.signatures[0].sig = `AAAA${altered.signatures[0].sig.slice(4)}`;
  const late = page.waitForResponse((response) => response.request().postData().includes("AAAA"));
  await drop(page, JSON.stringify(altered));
  await verdict(page, "running").waitFor();
  await drop(page, text);
  await verdict(page, "equal").waitFor();
  answer_first();
  await (await late).finished();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
  await verdict(page, "equal").waitFor({ timeout: 1000 });
});

page_test("text can be dropped into the question", {}, async (page) => {
  await ready(page);
  const is_taken = (kind) =>
    page.evaluate((type) => {
      const dataTransfer = new DataTransfer();
      if (type === "text") dataTransfer.setData("text/plain", "48 + 27");
      else dataTransfer.items.add(new File(["{}"], "receipt.json"));
      const event = new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true });
      return !document.querySelector("textarea").dispatchEvent(event);
    }, kind);
  assert.equal(await is_taken("text"), false);
  assert.equal(await is_taken("file"), true);
});

page_test("a reply is called signed where its choices are", {}, async (page) => {
  await open_receipt(page);
  const receipt = JSON.parse(fs.readFileSync(await download(page), "utf8"));
  const kind = async (choices) => {
    await drop(page, JSON.stringify({ system_fingerprint: "x", choices }));
    await panel(page).locator("dd", { hasText: "a reply, " }).waitFor();
    return panel(page).locator("dd", { hasText: "a reply, " }).textContent();
  };
  assert.equal(await kind([{ digest: "x" }]), "a reply, not signed");
  await page.reload();
  await ready(page);
  assert.equal(await kind([{ digest: "x", receipt }]), "a reply, with a receipt");
});

page_test("a pasted digest is the same or another", {}, async (page) => {
  await open_receipt(page);
  const digest = await page.locator("#digest").textContent();
  const pasted = panel(page).getByLabel("Compare with a digest");
  await pasted.fill(`digest ${digest} `);
  await panel(page).getByText("The same digest").waitFor();
  await pasted.fill(digest.slice(0, -1) + (digest.endsWith("0") ? "1" : "0"));
  await panel(page).getByText("Another digest").waitFor();
});

page_test("a file can be opened without a mouse, and Escape closes", {}, async (page) => {
  await open_receipt(page);
  const saved = await download(page);
  await page.keyboard.press("Escape");
  await panel(page).waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Check a receipt" }).click();
  await panel(page).locator("input[type=file]").setInputFiles(saved);
  await panel(page).locator("dt", { hasText: "Contract" }).waitFor();
});

test("a server without a key offers no receipts, and still checks them", async () => {
  let text;
  await visit(shared.browser, shared.server.url, {}, async (page) => {
    await open_receipt(page);
    text = fs.readFileSync(await download(page), "utf8");
  });
  delete process.env.REPROFUSE_KEY;
  const keyless = await serve();
  try {
    await visit(shared.browser, keyless.url, {}, async (page) => {
      const turn = await ask(page, QUESTION);
      assert.equal(await turn.getByRole("button", { name: "Receipt" }).count(), 0);
      await drop(page, text);
      await verdict(page, "equal").waitFor();
    });
  } finally {
    await keyless.stop();
  }
});
