// Puts the sections together, in the order in which one would ask.
"use strict";

// Without the options that the library was built with.
const short_vendor = (vendor) => vendor.replace(/^(OpenBLAS \S+) .*, (\S+ kernels)$/, "$1, $2");

// A row for each platform, with the models and tasks that were run there.
function platform_rows(groups) {
  const rows = new Map();
  for (const group of groups)
    for (const { fingerprints, ...run } of group.runs) {
      const key = JSON.stringify(run);
      if (!rows.has(key)) rows.set(key, { ...run, groups: [] });
      rows.get(key).groups.push(group);
    }
  return [...rows.values()];
}

// Settings of a group, and the fingerprints of its methods: one each, unless versions differ.
function settings_of(group) {
  const prints = new Set(group.runs.flatMap((run) => Object.values(run.fingerprints ?? {})));
  return [...Object.entries(group.settings), ...[...prints].map((print) => ["fingerprint", print])];
}

// "qwen3-4m: choice, algebra; prose-8m: prose"
function listed(groups) {
  const tasks = new Map();
  for (const { model, task } of groups) tasks.set(model, [...(tasks.get(model) ?? []), task]);
  return [...tasks].map(([model, of]) => `${model}: ${of.join(", ")}`).join("; ");
}

const settings_list = (group) =>
  element(
    "dl",
    { class: "facts" },
    settings_of(group).flatMap(([name, value]) => [
      element("dt", {}, name),
      element("dd", {}, element("code", {}, value || "none")),
    ]),
  );

function platforms(groups) {
  const settings = groups.map((group) => details(`Settings of ${group_name(group)}`, settings_list(group)));
  return section(
    "platforms",
    "What was run",
    table(
      "Each platform, and the models and tasks that were run there.",
      [
        { title: "platform", head: true, of: (run) => short_run(run.name) },
        { title: "device", of: (run) => run.device },
        { title: "library of the baselines", of: (run) => short_vendor(run.vendor) || DASH },
        { title: "machine", of: (run) => run.machine },
        { title: "answers at once", of: (run) => count(run.batch) },
        { title: "seeds", of: (run) => count(run.seeds) },
        { title: "version", of: (run) => run.version },
        {
          title: "models and tasks",
          of: (run) => (run.groups.length === groups.length ? "all" : listed(run.groups)),
        },
      ],
      platform_rows(groups),
    ),
    groups.length < MANY ? settings : details("Settings of each model and task", settings),
  );
}

function show(report) {
  const colors = colors_of(report.groups);
  const different = (of) => new Set(report.groups.flatMap(of)).size;
  const models = different((group) => [group.settings["model digest"] ?? group.model]);
  const places = different((group) =>
    group.runs.map((run) => [run.device, run.vendor, run.machine, run.batch].join("\n")),
  );
  const problems = report.groups.reduce((sum, group) => sum + group.problems, 0);
  const tasks = different((group) => [group.task]);
  document.getElementById("lead").textContent =
    `${many(models, "model")}, ${many(tasks, "task")}, ${many(problems, "problem")} in all, answered by ` +
    `${many(colors.size, "method")} on ${many(places, "platform")}, ` +
    "greedily unless the settings say otherwise. Figures of the paper stand beside, by table and figure.";
  document
    .getElementById("report")
    .append(
      ...[
        summary(report.groups, colors),
        determinism(report.groups, colors),
        margins(report.groups, colors),
        timing(report.groups, colors),
        speedups(report.benches, report.groups, colors),
        memory(report.memory, colors),
        accuracy(report.groups, colors),
        ablations(report.ablations),
        platforms(report.groups),
      ].filter((part) => part !== null),
    );
  document
    .getElementById("about")
    .append(
      element(
        "p",
        {},
        `Made by reprofuse ${report.version}. The numbers behind the figures are in this file, as JSON.`,
      ),
      element(
        "p",
        {},
        "The paper: “Accelerating the Mitigation of LLM Inference Nondeterminism Across GPU Architectures” (Cooper, Jeong, Jeon, Young, Kim). Charts by Observable Plot (ISC licence).",
      ),
    );
  document.body.dataset.state = "shown";
}

show(JSON.parse(document.getElementById("document").textContent));
