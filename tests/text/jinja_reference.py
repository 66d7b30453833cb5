#!/usr/bin/env python3
"""What Jinja2 itself, set up as Hugging Face's transformers does, makes of these tests' templates.

Writes where it differs from @huggingface/jinja: jinja_differences.json for the cases, chat_template_differences.json
for the conversations. Run it after chat_template_reference.mjs; --check compares instead of writing.
"""

import datetime
import functools
import hashlib
import json
import os
import pathlib
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skipped: Jinja2 is not installed (Debian: python3-jinja2)")
    sys.exit(77)

HERE = pathlib.Path(__file__).parent


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks the assistant's words and prints them."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def environment(now):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    result.filters["tojson"] = tojson
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = now.strftime
    return result


def read(name):
    return json.loads((HERE / name).read_text(encoding="utf-8"))


@functools.cache
def template(env, source):
    """Compiling one takes far longer than rendering it."""
    return env.from_string(source)


def render(env, source, variables):
    """The text, or None where Jinja2 refuses."""
    try:
        return template(env, source).render(**variables)
    except Exception:  # a template can make Python raise anything
        return None


def sha256(text):
    return None if text is None else hashlib.sha256(text.encode("utf-8")).hexdigest()


def case_differences(env):
    expected = read("jinja_expected.json")
    texts = {case["id"]: render(env, case["template"], case.get("variables", {})) for case in read("jinja_cases.json")}
    return {id: text for id, text in texts.items() if text != expected[id]}


def conversation_differences(env):
    data = read("chat_template_conversations.json")
    folders = [HERE / "chat_template_templates"]
    if os.environ.get("REPROFUSE_CHAT_TEMPLATES"):
        folders.append(pathlib.Path(os.environ["REPROFUSE_CHAT_TEMPLATES"]))
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.jinja"))]
    expected = read("chat_template_digests.json")
    own = {sha256(source) for source in sources}
    kept = HERE / "chat_template_differences.json"
    result = {key: value for key, value in (read(kept.name) if kept.exists() else {}).items()
              if key not in own and key in expected}
    for source in sources:
        differences = {}
        for conversation in data["conversations"]:
            for variant in data["variants"]:
                variables = {"messages": conversation["messages"], "tools": variant.get("tools"),
                             "add_generation_prompt": variant["add_generation_prompt"], **data["special_tokens"],
                             **variant.get("variables", {})}
                if "enable_thinking" in variant:
                    variables["enable_thinking"] = variant["enable_thinking"]
                id = f"{conversation['id']}/{variant['id']}"
                digest = sha256(render(env, source, variables))
                if digest != expected[sha256(source)]["renderings"][id]:
                    differences[id] = digest
        result[sha256(source)] = differences
    return result


def main():
    env = environment(datetime.datetime.fromisoformat(read("chat_template_conversations.json")["date"]))
    for name, produce in (("jinja_differences.json", case_differences),
                          ("chat_template_differences.json", conversation_differences)):
        text = json.dumps(produce(env), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        if sys.argv[1:] != ["--check"]:
            (HERE / name).write_text(text, encoding="utf-8")
        elif (HERE / name).read_text(encoding="utf-8") != text:
            sys.exit(f"{name} is not what Jinja2 {jinja2.__version__} gives")


if __name__ == "__main__":
    main()
