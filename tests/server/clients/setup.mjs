// What every test here is given: node FILE TOOL, where TOOL is the reprofuse binary.
import { after, before } from "node:test";
import { kill_servers, start_server } from "../support/server.mjs";

export const [tool] = process.argv.slice(2);
export const KEY = "sk-correct-horse";
export const MODEL = "arithmetic-7m";
export const QUESTION =
  "Tom has 3 boxes of 12 pens. He gives away 7 pens and then buys 10 more. How many pens does he have?";
export const UNSURE_QUESTION =
  "A train has 4 cars with 25 seats each. 38 seats are free. How many people sit in the train?";

const SKIPPED = 77;

export async function load_package(name, least_node = 18) {
  if (Number.parseInt(process.versions.node) < least_node) {
    console.log(`skipped: ${name} needs node ${least_node}, and this is ${process.versions.node}`);
    process.exit(SKIPPED);
  }
  try {
    return await import(name);
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    console.log(`skipped: ${name} is not installed (npm ci --ignore-scripts in tests/server/clients)`);
    process.exit(SKIPPED);
  }
}

// One server with a key for a file's tests, in an object that is filled before the first of them.
export function shared_server(options = []) {
  const shared = { headers: { Authorization: `Bearer ${KEY}` } };
  before(async () => Object.assign(shared, await start_server(tool, ["--api-key", KEY, "--threads", "1", ...options])));
  after(kill_servers);
  return shared;
}

export const user_says = (content) => [{ role: "user", content }];
