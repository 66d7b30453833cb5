// What every test here is given: node FILE TOOL CHROMIUM MODEL
//   TOOL is the reprofuse binary, CHROMIUM the browser's, MODEL the folder of the model that comes with ReproFuse.
import { after, before } from "node:test";
import { launch_browser } from "./browser.mjs";
import { start_server } from "./server.mjs";

export const [tool, chromium, model] = process.argv.slice(2);

// One browser and one server for a file's tests, in an object that is filled before the first of them.
export function shared_setup() {
  const shared = {};
  before(async () => {
    shared.browser = await launch_browser(chromium);
    shared.server = await start_server(tool);
  });
  after(async () => {
    await shared.browser?.close();
    await shared.server?.stop();
  });
  return shared;
}
