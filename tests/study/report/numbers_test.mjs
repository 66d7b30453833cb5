// The page says what `study compare --json` says, and has a part for everything that it was given and for nothing else.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { open_report, reprofuse, shared } from "./setup.mjs";
import { write_run } from "./synthetic_runs.mjs";

const compared = (runs) => JSON.parse(reprofuse("study", "compare", "--json", ...runs)).methods;

// The values behind the cells of a section's tables: one list of rows per table.
const values = (page, section) =>
  page
    .locator(`#${section} table`)
    .evaluateAll((tables) =>
      tables.map((table) =>
        [...table.tBodies[0].rows].map((row) =>
          Object.fromEntries(
            [...row.cells]
              .filter((cell) => cell.dataset.key)
              .map((cell) => [cell.dataset.key, cell.dataset.value ?? null]),
          ),
        ),
      ),
    );
const told = (value) => (value === null || value === undefined ? null : String(value));

test("the tables have the numbers that compare computes", async () => {
  await open_report(shared.whole, {}, async (page) => {
    const determinism = await values(page, "determinism");
    const margins = await values(page, "margins");
    assert.equal(determinism.length, shared.runs.length);
    shared.runs.forEach((runs, group) => {
      const methods = compared(runs);
      assert.ok(
        methods.some((method) => method.divergent_problems > 0),
        "no answer differs, so nothing is tested",
      );
      assert.deepEqual(
        determinism[group],
        methods.map((method) => ({
          numerics: method.numerics,
          divergent: told(method.divergent_problems / method.problems),
          div_index: told(method.between_runs.div_index),
          other_runs: told(method.between_runs.other_digests),
          seeds: told(method.between_seeds.divergent / method.between_seeds.pairs),
          other_seeds: told(method.between_seeds.other_digests),
        })),
      );
      assert.deepEqual(
        margins[group],
        methods.map((method) => ({
          numerics: method.numerics,
          margin_median: told(method.margin_median),
          tail_slope: told(method.tail_slope),
          shift_median: told(method.between_runs.shift_median),
          equal_margins: told(method.between_runs.equal_margins / method.between_runs.positions),
          flip: told(method.between_runs.flip_margin_median),
          predicted: told(method.predicted),
          measured: told(method.measured),
        })),
      );
    });
  });
});

test("times and right answers are those of the runs", async () => {
  await open_report(shared.whole, {}, async (page) => {
    const seconds = shared.runs.flatMap((runs) =>
      compared(runs).flatMap((method) => method.runs.map((run) => String(run.seconds))),
    );
    const [rows] = await values(page, "timing");
    assert.deepEqual(rows.map((row) => row.seconds).sort(), seconds.sort());
    const [run] = compared(shared.runs[0])[0].runs;
    const cell = page.locator("#accuracy td small").first();
    assert.equal((await cell.textContent()).trim(), `${run.right_answers} of ${run.known_answers}`);
  });
});

test("what the text shows are these numbers, and the paper's stand beside them", async () => {
  await open_report(shared.whole, {}, async (page) => {
    const bf16 = compared(shared.runs[0]).find((method) => method.numerics === "bf16");
    const row = page.locator("#determinism table").first().locator("tbody tr", { hasText: "bf16" });
    const cells = (await row.locator("td").allTextContents()).map((text) => text.replace(/\u00a0/g, " "));
    const shown = (fraction) => `${(100 * fraction).toFixed(2).replace(/\.0+$/, "")} %`;
    assert.equal(cells[0], shown(bf16.divergent_problems / bf16.problems));
    assert.equal(cells[1], "66.64 %"); // Table 1 of the paper, Llama-3.2-3B, GSM8K
    assert.equal(cells[3], "65"); // Table 5
    const other = page.locator("#determinism table").nth(1).locator("tbody tr", { hasText: "bf16" });
    assert.match((await other.locator("td").allTextContents()).join("|"), /30\.81\u00a0% to 100\u00a0%/);
    const contract = page.locator(".card[data-numerics=fma-1] .verdict");
    assert.match(await contract.textContent(), /^Every logit of [\d,]+ pairs has the same bits$/);
    assert.equal(await page.locator(".card[data-numerics=bf16] .verdict").getAttribute("data-state"), "differs");
  });
});

const sections = (page) => page.locator("section").evaluateAll((all) => all.map((section) => section.id));
const OF_RUNS = ["determinism", "margins", "timing", "accuracy", "platforms"];

test("parts without data are left out", async () => {
  await open_report(shared.runs_alone, {}, async (page) => assert.deepEqual(await sections(page), OF_RUNS));
  await open_report(shared.whole, {}, async (page) => {
    assert.deepEqual((await sections(page)).sort(), [...OF_RUNS, "speedup", "memory", "ablations"].sort());
    assert.match(await page.locator("#speedup table").textContent(), /Second GPU.*15\.0/); // 30 TFLOP/s over 2 TB/s
    assert.match(await page.locator("#memory table").textContent(), /70,832/); // Table 2
    assert.match(await page.locator("#ablations").textContent(), /Bits are equal <on> every path/);
  });
});

test("of many models and tasks the first are shown at once, and the others when they are asked for", async () => {
  const folder = path.join(shared.folder, "many");
  const tasks = ["a", "b", "c", "d", "e"];
  const made = { problems: 4, seeds: 2, device: "cpu" };
  const runs = tasks.flatMap((task) =>
    ["one", "two"].map((platform) =>
      write_run(folder, { ...made, model: task === "e" ? "another" : "a model", task, platform }),
    ),
  );
  const out = path.join(folder, "report.html");
  reprofuse("study", "report", ...runs, "--out", out);
  await open_report(out, {}, async (page) => {
    assert.match(await page.locator("#lead").textContent(), /^2 models, 5 tasks, 20 problems in all, answered by 4 methods/);
    for (const section of ["determinism", "margins"]) {
      assert.equal(await page.locator(`#${section} > table`).count(), 2);
      assert.equal(await page.locator(`#${section} > details`).count(), 3);
    }
    const folded = page.locator("#determinism > details > summary").first();
    assert.match(await folded.textContent(), /^a model · c: fma-1 0\u00a0%, exact-1 0\u00a0%, layercast /);
    for (const section of ["margins", "timing", "accuracy"]) {
      await page.locator(`#${section} > details > summary`).first().click();
      await page.locator(`#${section} > details[open] .chart svg`).first().waitFor();
    }
    assert.equal(await page.locator("#platforms tbody tr").count(), 2);
    assert.match(await page.locator("#platforms tbody tr").first().textContent(), /all$/);
    const prints = await page.locator("#platforms details details").first().locator("dd").allTextContents();
    assert.deepEqual(
      prints.slice(-4).map((print) => print.replace(/[0-9a-f]{16}/, "MODEL")),
      ["fma-1", "exact-1", "unpinned-layercast", "unpinned-bf16"].map((name) => `${name}-MODEL-89abcdef-0.0.0`),
    );
  });
});

test("a contract that moved is told in words, and by the exit status", async () => {
  const folder = path.join(shared.folder, "moved");
  const methods = [{ numerics: "fma-1", pins_bits: true, noise: 0.06, seconds: 1 }];
  const made = { model: "a model", task: "a task", problems: 3, seeds: 1, device: "cpu", methods };
  const runs = ["one", "two"].map((platform) => write_run(folder, { ...made, platform }));
  const out = path.join(folder, "report.html");
  assert.throws(
    () => reprofuse("study", "report", ...runs, "--out", out),
    /answers by fma-1 differ, which pins every bit/,
  );
  await open_report(out, {}, async (page) => {
    const verdict = page.locator(".card[data-numerics=fma-1] .verdict");
    assert.equal(await verdict.textContent(), "3 of 3 pairs have other bits, and must not");
    assert.equal(await verdict.getAttribute("data-state"), "moved");
  });
});

const refusal = (...options) => {
  try {
    reprofuse("study", "report", "--out", path.join(shared.folder, "none.html"), ...options);
    return "";
  } catch (error) {
    return error.stderr;
  }
};

test("what cannot be compared or is something else is refused with the reason", () => {
  const made = { model: "a model", task: "a task", problems: 2, seeds: 1, device: "cpu" };
  const one = write_run(path.join(shared.folder, "refused"), { ...made, platform: "one" });
  const other = write_run(path.join(shared.folder, "refused"), {
    ...made,
    platform: "other",
    settings: { "longest answer": "9" },
  });
  assert.equal(refusal(one), "");
  assert.match(refusal(one, other), /cannot be compared: longest answer is 64 in one and 9 in the other/);
  assert.match(refusal(one, one), /one\.run: two runs of a task have this name/);
  const file = path.join(shared.folder, "memory.json");
  assert.match(refusal(one, "--bench", file), /memory\.json: is no result of `bench linear` or `bench engine`/);
  assert.equal(refusal(one, "--memory", file), "");
  const broken = path.join(shared.folder, "broken.json");
  fs.writeFileSync(broken, "{");
  assert.match(refusal(one, "--ablation", broken), /broken\.json: is not JSON/);
});
