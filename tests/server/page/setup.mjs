// What every test file here is given: node FILE TOOL CHROMIUM MODEL
//   TOOL is the reprofuse binary, CHROMIUM the browser's, MODEL the folder of the model that comes with ReproFuse.
import { after, before, test } from "node:test";
import { generate, start_server } from "../support/server.mjs";
import { launch_browser, visit } from "./browser.mjs";

const [tool, chromium, folder] = process.argv.slice(2);
export const model = folder;

// Tests run side by side, and threads that wait for each other would wait for those, too.
const ONE_THREAD = ["--threads", "1"];

export const serve = (options = [], port = 0) => start_server(tool, [...ONE_THREAD, ...options], port);

// What the command line answers to the same question: text, tokens and digest.
export const command_line_answer = (question, options = []) =>
  generate(tool, ["--chat", "--prompt", question, ...ONE_THREAD, ...options]);

// One browser and one server for all tests of a file, there from the first of them on.
export const shared = { browser: null, server: null };
before(async () => {
  shared.browser = await launch_browser(chromium);
  shared.server = await serve();
});
after(async () => {
  await shared.browser?.close();
  await shared.server?.stop();
});

// A test on a fresh page of the shared server.
export const page_test = (name, options, run) =>
  test(name, () => visit(shared.browser, shared.server.url, options, run));
