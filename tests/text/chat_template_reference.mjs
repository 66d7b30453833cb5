// What @huggingface/jinja makes of the templates and conversations of these tests. Without an option it writes the
// expected files; --check compares them with what it would write; --show TEMPLATE ID prints one rendering.
// REPROFUSE_CHAT_TEMPLATES=FOLDER adds templates that are not in the repository: of those only digests are kept.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const inHere = (name) => join(here, name);
const readJson = (name) => JSON.parse(readFileSync(inHere(name), "utf8"));

const conversations = readJson("chat_template_conversations.json");

// The package reads the clock; pin it.
process.env.TZ = "UTC";
const now = new Date(conversations.date + "Z");
globalThis.Date = class extends Date {
  constructor() {
    super(now);
  }
};
const packageFile = "./npm/node_modules/@huggingface/jinja/dist/index.js";
if (!existsSync(inHere(packageFile))) {
  console.log("skipped: @huggingface/jinja is not installed (npm ci in tests/text/npm)");
  process.exit(77);
}
const { Template } = await import(packageFile);

const sha256 = (text) => createHash("sha256").update(text, "utf8").digest("hex");

// The text, or null where the package refuses.
function render(template, variables) {
  try {
    return template.render(variables);
  } catch {
    return null;
  }
}

function* variantsOf(conversation) {
  for (const variant of conversations.variants) {
    const variables = {
      messages: conversation.messages,
      tools: variant.tools ?? null,
      add_generation_prompt: variant.add_generation_prompt,
      ...conversations.special_tokens,
      ...variant.variables,
    };
    if ("enable_thinking" in variant) variables.enable_thinking = variant.enable_thinking;
    yield [`${conversation.id}/${variant.id}`, variables];
  }
}

function renderAll(source) {
  const template = new Template(source);
  const texts = {};
  for (const conversation of conversations.conversations) {
    for (const [id, variables] of variantsOf(conversation)) texts[id] = render(template, variables);
  }
  return texts;
}

function templates() {
  const folders = [inHere("chat_template_templates")];
  if (process.env.REPROFUSE_CHAT_TEMPLATES) folders.push(process.env.REPROFUSE_CHAT_TEMPLATES);
  return folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith(".jinja"))
      .sort()
      .map((name) => ({ name, source: readFileSync(join(folder, name), "utf8") })),
  );
}

// { template's SHA-256: { name, renderings: { conversation/variant: SHA-256 of the text, or null } } }
function digests() {
  const file = "chat_template_digests.json";
  const all = existsSync(inHere(file)) ? readJson(file) : {};
  const own = new Set(readdirSync(inHere("chat_template_templates")));
  for (const [key, entry] of Object.entries(all)) if (own.has(entry.name)) delete all[key];
  for (const { name, source } of templates()) {
    const renderings = {};
    for (const [id, text] of Object.entries(renderAll(source))) renderings[id] = text === null ? null : sha256(text);
    all[sha256(source)] = { name, renderings };
  }
  return all;
}

// { case's id: text, or null }
function cases() {
  const texts = {};
  for (const { id, template, variables } of readJson("jinja_cases.json")) {
    try {
      texts[id] = new Template(template).render(variables ?? {});
    } catch {
      texts[id] = null;
    }
  }
  return texts;
}

const outputs = { "chat_template_digests.json": digests, "jinja_expected.json": cases };

if (process.argv[2] === "--show") {
  const [name, id] = process.argv.slice(3);
  const found = templates().find((template) => template.name === name);
  process.stdout.write(renderAll(found.source)[id] ?? "(refused)");
} else {
  for (const [file, produce] of Object.entries(outputs)) {
    const text = JSON.stringify(produce(), null, 1) + "\n";
    if (process.argv[2] !== "--check") {
      writeFileSync(inHere(file), text);
    } else if (readFileSync(inHere(file), "utf8") !== text) {
      console.error(`${file} is not what @huggingface/jinja gives`);
      process.exitCode = 1;
    }
  }
}
