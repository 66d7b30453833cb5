// How a report looks: the size of the file, text that fits and stands out, and pictures of its parts beside references.
import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { contrasts } from "../../server/page/browser.mjs";
import { is_writing, open_report, shared } from "./setup.mjs";

const MAX_BYTES = 1_000_000;
const AA = 4.5; // the contrast that WCAG 2 asks of text
const LAPTOP = { width: 1280, height: 800 };
const PHONE = { width: 360, height: 740 };
const TEXTS =
  "h1, h2, .kicker, #lead, .card h3, .card .kind, .large, .what, .verdict, figcaption, .legend li, caption, th, td, .paper, summary, .citation, footer p";

test("a report is one file of moderate size", () => {
  for (const file of [shared.whole, shared.runs_alone]) {
    const { size } = fs.statSync(file);
    assert.ok(size < MAX_BYTES, `${file}: ${size} bytes`);
  }
});

for (const [name, viewport] of Object.entries({ laptop: LAPTOP, phone: PHONE, narrow: { width: 320, height: 600 } }))
  test(`nothing is cut off on a ${name}`, () =>
    open_report(shared.whole, { viewport }, async (page) => {
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
      const outside = await page.evaluate((width) => {
        const found = [];
        if (document.documentElement.scrollWidth > width)
          found.push(`the page: ${document.documentElement.scrollWidth}`);
        for (const element of document.querySelectorAll(
          "h1, h2, h3, p, td, th, caption, figcaption, li, dd, summary, .chart text",
        )) {
          if (element.closest("thead") && width < 700) continue; // for readers of the screen alone
          const box = element.getBoundingClientRect();
          if (box.width > 0 && (box.left < -0.5 || box.right > width + 0.5))
            found.push(`${element.tagName} '${element.textContent}': ${box.left} to ${box.right}`);
        }
        return found;
      }, viewport.width);
      assert.deepEqual(outside, []);
    }));

for (const colorScheme of ["light", "dark"])
  test(`text stands out in the ${colorScheme} scheme`, () =>
    open_report(shared.whole, { colorScheme }, async (page) => {
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
      for (const selector of TEXTS.split(", ")) {
        const found = await contrasts(page.locator(`${selector}:visible`));
        assert.ok(found.length > 0, `${selector} was not found`);
        for (const { text, ratio } of found) assert.ok(ratio >= AA, `${selector} '${text}': ${ratio.toFixed(2)}`);
      }
    }));

test("every figure is told in words and in a table", () =>
  open_report(shared.whole, {}, async (page) => {
    const figures = await page.locator("figure").evaluateAll((all) =>
      all.map((figure) => ({
        words: figure.querySelector(".chart").getAttribute("aria-label"),
        role: figure.querySelector(".chart").getAttribute("role"),
        tables: figure.closest("section").querySelectorAll("table").length,
      })),
    );
    assert.ok(figures.length >= 6);
    for (const { words, role, tables } of figures)
      assert.ok(role === "img" && words.length > 40 && /\d/.test(words) && tables > 0, words);
  }));

// How much of two pictures differs: both are scaled to a quarter and compared in squares, so that edges of
// glyphs do not count and a line that is missing does.
const SQUARE = 4;
const DIFFERENT = 20; // of 255, the mean over a square
const ALLOWED = 0.02; // of all squares
const scaled = (page, picture) =>
  page.evaluate(async (data) => {
    const image = await createImageBitmap(await (await fetch(data)).blob());
    const canvas = new OffscreenCanvas(Math.round(image.width / 4), Math.round(image.height / 4));
    const paint = canvas.getContext("2d");
    paint.imageSmoothingQuality = "high";
    paint.drawImage(image, 0, 0, canvas.width, canvas.height);
    const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  }, picture);
const difference = (page, pictures) =>
  page.evaluate(
    async ([pictures, square, different]) => {
      const images = await Promise.all(
        pictures.map(async (data) => createImageBitmap(await (await fetch(data)).blob())),
      );
      const [width, height] = ["width", "height"].map((side) => Math.min(...images.map((image) => image[side])));
      const largest = Math.max(...images.map((image) => image.height));
      if (images[0].width !== images[1].width || (largest - height) / largest > 0.03) return 1;
      const [a, b] = images.map((image) => {
        const paint = new OffscreenCanvas(width, height).getContext("2d");
        paint.drawImage(image, 0, 0);
        return paint.getImageData(0, 0, width, height).data;
      });
      let [all, other] = [0, 0];
      for (let y = 0; y + square <= height; y += square)
        for (let x = 0; x + square <= width; x += square) {
          const sums = [0, 0, 0];
          for (let dy = 0; dy < square; ++dy)
            for (let dx = 0; dx < square; ++dx)
              for (let channel = 0; channel < 3; ++channel) {
                const at = 4 * ((y + dy) * width + x + dx) + channel;
                sums[channel] += a[at] - b[at];
              }
          ++all;
          if (Math.max(...sums.map(Math.abs)) / square ** 2 > different) ++other;
        }
      return other / all;
    },
    [pictures, SQUARE, DIFFERENT],
  );
const as_url = (bytes) => `data:image/png;base64,${bytes.toString("base64")}`;

// Pictures are compared on a page without a policy, which may read them.
async function with_blank_page(look) {
  const context = await shared.browser.newContext();
  try {
    await look(await context.newPage());
  } finally {
    await context.close();
  }
}

const reference_of = (name) => new URL(`references/${name}.png`, import.meta.url);
const use_one_font = async (page) => {
  await page.addStyleTag({ content: '* { font-family: "DejaVu Sans" !important; }' });
  await page.waitForTimeout(100);
};
const take = (page, selector) => page.locator(selector).screenshot({ animations: "disabled" });

const PARTS = [".cards", "#determinism figure", "#margins figure:first-of-type", "#timing figure", "#speedup figure"];
for (const [size, viewport] of Object.entries({ laptop: LAPTOP, phone: PHONE }))
  for (const colorScheme of ["light", "dark"])
    test(`every part looks as it did on a ${size} in the ${colorScheme} scheme`, () =>
      open_report(shared.whole, { viewport, colorScheme }, async (page) => {
        await use_one_font(page);
        for (const part of PARTS) {
          const name = `${part.match(/[a-z]+/)[0]}-${size}-${colorScheme}`;
          const picture = await take(page, part);
          await with_blank_page(async (blank) => {
            const small = Buffer.from(await scaled(blank, as_url(picture)), "base64");
            if (is_writing) fs.writeFileSync(reference_of(name), small);
            const found = await difference(blank, [as_url(small), as_url(fs.readFileSync(reference_of(name)))]);
            assert.ok(found <= ALLOWED, `${(100 * found).toFixed(1)} % of ${name} differs`);
          });
        }
      }));

test("another scheme, and a method that is missing, are seen as another picture", () =>
  open_report(shared.whole, { viewport: LAPTOP, colorScheme: "light" }, async (page) => {
    const reference = (name) => as_url(fs.readFileSync(reference_of(name)));
    await page.evaluate(() =>
      document.querySelectorAll("#timing svg [aria-label=bar] rect:nth-child(3n)").forEach((bar) => bar.remove()),
    );
    await use_one_font(page);
    const picture = await take(page, "#timing figure");
    await with_blank_page(async (blank) => {
      const small = as_url(Buffer.from(await scaled(blank, as_url(picture)), "base64"));
      assert.ok((await difference(blank, [small, reference("timing-laptop-light")])) > ALLOWED);
      assert.ok(
        (await difference(blank, [reference("timing-laptop-dark"), reference("timing-laptop-light")])) > ALLOWED,
      );
      assert.equal(await difference(blank, [small, small]), 0);
    });
  }));
