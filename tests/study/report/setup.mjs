// What every test file here is given: node FILE TOOL CHROMIUM [--write]
//   TOOL is the reprofuse binary, CHROMIUM the browser's; --write makes the reference pictures anew.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { launch_browser } from "../../server/page/browser.mjs";
import { write_other_results, write_study } from "./synthetic_runs.mjs";

const [tool, chromium] = process.argv.slice(2);
export const is_writing = process.argv.includes("--write");
export const reprofuse = (...options) =>
  execFileSync(tool, options, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

// One browser, and one report with every part and one of runs alone, for all tests of a file.
export const shared = { browser: null, folder: null, runs: [], whole: null, runs_alone: null };
before(async () => {
  shared.browser = await launch_browser(chromium);
  shared.folder = fs.mkdtempSync(path.join(os.tmpdir(), "reprofuse-report-"));
  shared.runs = write_study(shared.folder);
  const { linear, engine, memory, ablation } = write_other_results(shared.folder);
  const others = ["--bench", linear, "--bench", engine, "--memory", memory, "--ablation", ablation];
  shared.whole = path.join(shared.folder, "whole.html");
  reprofuse("study", "report", ...shared.runs.flat(), "--out", shared.whole, ...others);
  shared.runs_alone = path.join(shared.folder, "runs_alone.html");
  reprofuse("study", "report", ...shared.runs[1], "--out", shared.runs_alone);
});
after(async () => {
  await shared.browser?.close();
  if (shared.folder) fs.rmSync(shared.folder, { recursive: true });
});

// Opens a report and runs `look(page)`. Fails on an error on the console, a thrown error or a request to anywhere.
export async function open_report(file, options, look) {
  const context = await shared.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  try {
    const page = await context.newPage();
    const url = pathToFileURL(file).href;
    const problems = [];
    page.on("console", (message) => {
      if (message.type() === "error") problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(error.stack));
    page.on("request", (request) => {
      if (request.url() !== url) problems.push(`a request to ${request.url()}`);
    });
    await page.goto(url);
    await page.locator("body[data-state=shown]").waitFor();
    await page.waitForFunction(() =>
      [...document.querySelectorAll(".chart")].every(
        (chart) => chart.childElementCount > 0 || chart.closest("details:not([open])"),
      ),
    );
    await look(page);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}
