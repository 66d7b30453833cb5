// The real thing for a test to talk to: `reprofuse serve`, and what `reprofuse generate` says of the same question.
import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const START_MS = 60_000;

// Starts a server, on a free port unless told otherwise. Resolves to its address once it listens; `stop` ends it and waits
// for that.
export function start_server(tool, options = [], port = "0") {
  const child = spawn(tool, ["serve", "--quiet", "--port", port, ...options], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  return new Promise((resolve, reject) => {
    let said = "";
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`${tool} serve did not say where it listens within ${START_MS} ms:\n${said}`));
    }, START_MS);
    const listen = (text) => {
      said += text;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
      if (!found) return;
      clearTimeout(timer);
      resolve({ url: found[0], stop });
    };
    child.stdout.on("data", listen);
    child.stderr.on("data", listen);
    child.on("error", reject);
    ended.then((status) => {
      clearTimeout(timer);
      reject(new Error(`${tool} serve ended with status ${status}:\n${said}`));
    });
  });
}

// What the command line answers: text, tokens and digest.
export function generate(tool, question, options = []) {
  const told = execFileSync(tool, ["generate", "--chat", "--prompt", question, "--digest", "--json", ...options]);
  return JSON.parse(told);
}

// A copy of a checkpoint folder that has no chat template; `remove` deletes it.
export function without_chat_template(model) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "reprofuse-page-"));
  for (const name of fs.readdirSync(model)) {
    if (name === "chat_template.jinja") continue;
    fs.symlinkSync(path.join(model, name), path.join(folder, name));
  }
  return { folder, remove: () => fs.rmSync(folder, { recursive: true }) };
}
