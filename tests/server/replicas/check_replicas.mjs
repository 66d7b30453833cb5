// deploy/check_replicas.py as a process: { status, told }.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { KEY } from "./load.mjs";

const SCRIPT = fileURLToPath(new URL("../../../deploy/check_replicas.py", import.meta.url));

export function check_replicas(servers, key = KEY) {
  const parameters = servers.map(({ url }) => url);
  return new Promise((resolve) => {
    execFile(SCRIPT, parameters, { env: { ...process.env, REPROFUSE_API_KEY: key } }, (error, told, problem) =>
      resolve({ status: error?.code ?? 0, told: told + problem }),
    );
  });
}
