// A headless Chromium, and pages in it that are held to what the server's page promises on every visit.
import assert from "node:assert/strict";

const SKIPPED = 77;

async function load_playwright() {
  try {
    return await import("playwright-core");
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    console.log("skipped: playwright-core is not installed (npm ci --ignore-scripts in tests/server/page)");
    process.exit(SKIPPED);
  }
}

export async function launch_browser(executable) {
  const { chromium } = await load_playwright();
  return chromium.launch({ executablePath: executable, chromiumSandbox: false });
}

// Chromium reports each answer that is an error on the console. Those that a test provokes are expected; no others are.
const is_expected = (text, statuses) => statuses.some((status) => text.includes(`status of ${status} `));

// Opens the page and runs `visit(page)`. Fails on an error on the console, a thrown error, a broken content security
// policy, or a request to anywhere else. `before(page)` runs first, to intercept requests.
export async function visit(browser, url, options, run) {
  const { expected_statuses = [], before = async () => {}, ...context_options } = options;
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...context_options });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    const problems = [];
    page.on("console", (message) => {
      if (message.type() === "error" && !is_expected(message.text(), expected_statuses)) problems.push(message.text());
    });
    page.on("pageerror", (error) => problems.push(error.stack));
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== url) problems.push(`a request to ${request.url()}`);
    });
    await before(page);
    await page.goto(url);
    await run(page);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}

export const ready = (page) => page.locator("#status[data-state=ready]").waitFor();

// Asks as a reader does, and waits for the end of the answer. Returns its turn.
export async function ask(page, question) {
  const turn = await start_asking(page, question);
  await turn.locator(".tokens[aria-busy=false]").waitFor();
  return turn;
}

export async function start_asking(page, question) {
  await ready(page);
  const turns = await page.locator(".turn").count();
  await page.getByLabel("Your message").fill(question);
  await page.keyboard.press("Enter");
  return page.locator(".turn").nth(turns);
}

// How far each text stands out from what is behind it, as WCAG 2 measures it.
export function contrasts(locator) {
  return locator.evaluateAll((elements) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    const fill = (color) => {
      paint.fillStyle = color;
      paint.fillRect(0, 0, 1, 1);
      return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const luminance = (color) => {
      const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
      const [red, green, blue] = color.map((byte) => linear(byte / 255));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const painted_behind = (element) => {
      if (element.parentElement) painted_behind(element.parentElement);
      return fill(getComputedStyle(element).backgroundColor);
    };
    return elements.map((element) => {
      const colors = [painted_behind(element), fill(getComputedStyle(element).color)];
      const [light, dark] = colors.map(luminance).sort((a, b) => b - a);
      return { text: element.textContent, ratio: (light + 0.05) / (dark + 0.05) };
    });
  });
}
