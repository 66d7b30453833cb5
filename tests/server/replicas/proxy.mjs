// nginx or HAProxy as a process, with the configuration in deploy/ but for addresses and files.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { request } from "../support/http.mjs";

const START_MS = 10_000;
const COMMITTED_PORTS = [8001, 8002, 8003]; // of the replicas in deploy/
const DEPLOY = fileURLToPath(new URL("../../../deploy", import.meta.url));

const running = new Set();
const folders = new Set();

// For the end of a test, however it ends: no proxy is left behind, and none keeps the test from ending.
export function end_proxies() {
  for (const child of running) child.kill("SIGTERM"); // of nginx the workers, too
}
process.on("exit", () => {
  end_proxies();
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Ends the test as skipped where the program is not installed; Debian has both where only root looks.
export function require_program(name) {
  process.env.PATH += ":/usr/sbin";
  if (!spawnSync(name, ["-v"]).error) return;
  console.log(`skipped: ${name} was not found`);
  process.exit(77);
}

function new_folder() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "reprofuse-replicas-"));
  folders.add(folder);
  return folder;
}

function free_port() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// The text with each of these changed, which must be there.
function changed(text, changes) {
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`deploy/ has no '${from}'`);
    text = text.replaceAll(from, to);
  }
  return text;
}

const to_ports = (ports) => COMMITTED_PORTS.map((port, i) => [`127.0.0.1:${port}`, `127.0.0.1:${ports[i]}`]);

// With the lines for TLS, which are comments in the file, and a certificate for them.
function with_tls(text, folder) {
  const [certificate, key, both] = ["certificate.pem", "key.pem", "both.pem"].map((name) => path.join(folder, name));
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-subj", "/CN=localhost"];
  execFileSync("openssl", ["req", "-x509", ...kind, "-keyout", key, "-out", certificate], { stdio: "pipe" });
  fs.writeFileSync(both, fs.readFileSync(certificate, "utf8") + fs.readFileSync(key, "utf8"));
  return text
    .replace(/# (listen|bind|ssl_)/g, "$1")
    .replaceAll("/etc/ssl/certs/reprofuse.pem", certificate)
    .replaceAll("/etc/ssl/private/reprofuse.key", key)
    .replaceAll("/etc/haproxy/reprofuse.pem", both)
    .replace(/:?443 ssl/, "127.0.0.1:8443 ssl");
}

export const nginx = {
  name: "nginx",
  command: (file) => ["nginx", "-c", file],
  check: (file) => ["nginx", "-t", "-c", file],
  log: (folder) => fs.readFileSync(path.join(folder, "access.log"), "utf8"),
  // Requests for which a second replica was tried.
  retries: (log) => log.split("\n").filter((line) => / "[\d.:]+, [\d.:]+" /.test(line)).length,

  write(folder, port, ports, changes) {
    const committed = changed(fs.readFileSync(path.join(DEPLOY, "nginx.conf"), "utf8"), [
      ["listen 80;", `listen 127.0.0.1:${port};`],
      ["/var/log/nginx/reprofuse.log", path.join(folder, "access.log")],
      ...to_ports(ports),
      ...changes,
    ]);
    const file = path.join(folder, "nginx.conf");
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `  ${name}_temp_path ${folder}/${name};\n`,
    );
    fs.writeFileSync(
      file,
      `daemon off;\nuser ${os.userInfo().username};\nworker_processes 2;\npid ${folder}/pid;\n` +
        `error_log ${folder}/error.log;\nevents {}\nhttp {\n${temporary.join("")}${committed}}\n`,
    );
    return file;
  },
};

export const haproxy = {
  name: "haproxy",
  command: (file) => ["haproxy", "-f", file],
  check: (file) => ["haproxy", "-c", "-f", file],
  log: (folder, stdout) => stdout,
  // Of the five counts after the state of a session the last is that of retries, with a plus for another replica.
  retries: (log) => log.split("\n").filter((line) => / [-\w]{4} (\d+\/){4}\+?[1-9]\d* /.test(line)).length,

  write(folder, port, ports, changes) {
    const file = path.join(folder, "haproxy.cfg");
    const committed = fs.readFileSync(path.join(DEPLOY, "haproxy.cfg"), "utf8");
    const here = [
      ["bind :80\n", `bind 127.0.0.1:${port}\n`],
      ["log /dev/log local0", "log stdout format raw local0"],
    ];
    fs.writeFileSync(file, changed(committed, [...here, ...to_ports(ports), ...changes]));
    return file;
  },
};

// What the program itself thinks of the committed file, and of the file with TLS: { status, told }.
export function check_configuration(kind, { tls = false, changes = [] } = {}) {
  const folder = new_folder();
  const file = kind.write(folder, 8080, COMMITTED_PORTS, changes);
  if (tls) fs.writeFileSync(file, with_tls(fs.readFileSync(file, "utf8"), folder));
  const [program, ...parameters] = kind.check(file);
  const { status, stdout, stderr } = spawnSync(program, parameters, { encoding: "utf8" });
  return { status, told: stdout + stderr, text: fs.readFileSync(file, "utf8") };
}

// Starts it before replicas at three ports, and waits until it answers. `changes` are pairs of texts.
export async function start_proxy(kind, ports, changes = []) {
  const folder = new_folder();
  const port = await free_port();
  const [program, ...parameters] = kind.command(kind.write(folder, port, ports, changes));
  const child = spawn(program, parameters, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  running.add(child);
  ended.then(() => running.delete(child));
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  const url = `http://127.0.0.1:${port}`;
  const answers = () =>
    request(url, "/health").then(
      ({ status }) => status === 200,
      () => false,
    );
  for (const deadline = Date.now() + START_MS; !(await answers()); await sleep(20))
    if (Date.now() > deadline || !running.has(child)) throw new Error(`${kind.name} does not answer:\n${stderr}`);
  return {
    url,
    retries: () => kind.retries(kind.log(folder, stdout)),
    async stop() {
      child.kill("SIGTERM");
      return ended;
    },
  };
}
