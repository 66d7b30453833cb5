// Puts the sections together, in the order in which one would ask.
"use strict";

// Without the options that the library was built with.
const short_vendor = (vendor) => vendor.replace(/^(OpenBLAS \S+) .*, (\S+ kernels)$/, "$1, $2");

function platforms(groups) {
  return section(
    "platforms",
    "What was run",
    groups
      .map((group) => [
        table(
          [element("strong", {}, group_name(group))],
          [
            { title: "platform", head: true, of: (run) => short_run(run.name) },
            { title: "device", of: (run) => run.device },
            { title: "library of the baselines", of: (run) => short_vendor(run.vendor) || DASH },
            { title: "machine", of: (run) => run.machine },
            { title: "answers at once", of: (run) => count(run.batch) },
            { title: "seeds", of: (run) => count(run.seeds) },
            { title: "version", of: (run) => run.version },
          ],
          group.runs,
        ),
        details(
          "Settings of these runs",
          element(
            "dl",
            { class: "facts" },
            Object.entries(group.settings).flatMap(([name, value]) => [
              element("dt", {}, name),
              element("dd", {}, element("code", {}, value || "none")),
            ]),
          ),
        ),
      ])
      .flat(),
  );
}

function show(report) {
  const colors = colors_of(report.groups);
  const total = (of) => report.groups.reduce((sum, group) => sum + of(group), 0);
  const places = new Set(
    report.groups.flatMap((group) =>
      group.runs.map((run) => [run.device, run.vendor, run.machine, run.batch].join("\n")),
    ),
  );
  const many = (value, one, more) => `${count(value)} ${value === 1 ? one : more}`;
  document.getElementById("lead").textContent =
    `${many(
      total((group) => group.problems),
      "problem",
      "problems",
    )} of ${many(report.groups.length, "task", "tasks")}, ` +
    `answered by ${many(colors.size, "method", "methods")} on ${many(places.size, "platform", "platforms")}, ` +
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
