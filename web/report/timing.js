// How long the runs took.
"use strict";

// A run's cells of every numerics, with its times as parts of those of each baseline.
function time_rows(groups) {
  return groups.flatMap((group) =>
    group.runs.flatMap((run) => {
      const cells = group.methods.flatMap((method) =>
        (method.runs ?? [])
          .filter((cell) => cell.run === run.name && cell.seconds > 0)
          .map((cell) => ({ ...cell, method, numerics: method.numerics })),
      );
      const baselines = cells.filter((cell) => !cell.method.pins_bits);
      return cells.map((cell) => ({
        ...cell,
        group,
        device: run.device,
        facet: short_run(run.name),
        of_baselines: Object.fromEntries(
          baselines.map((baseline) => [baseline.numerics, cell.seconds / baseline.seconds]),
        ),
      }));
    }),
  );
}

function timing(groups, colors) {
  const rows = time_rows(groups);
  if (rows.length === 0) return null;
  const baselines = [...new Set(rows.flatMap((row) => Object.keys(row.of_baselines)))];
  const key = baselines.includes(PAPER_SPEED_BASELINE) ? PAPER_SPEED_BASELINE : baselines[0];
  const shown = key ? rows.filter((row) => key in row.of_baselines) : rows;
  const value = (row) => (key ? row.of_baselines[key] : row.seconds);
  const deviation = (row) => (row.seconds > 0 ? (value(row) * row.seconds_deviation) / row.seconds : 0);
  const largest = (rows) => Math.max(...rows.map((row) => value(row) + deviation(row)), 1);
  const color = (row) => colors.get(row.numerics);
  const marks = (shown) => [
    Plot.barX(shown, {
      fy: "facet",
      x: value,
      y: "numerics",
      fill: color,
      fillOpacity: 0.85,
      rx: 2,
      tip: true,
      title: (row) => `${row.numerics}: ${number(row.seconds, 2)} s`,
    }),
    Plot.link(
      shown.filter((row) => row.seconds_deviation > 0),
      {
        fy: "facet",
        x1: (row) => value(row) - deviation(row),
        x2: (row) => value(row) + deviation(row),
        y1: "numerics",
        y2: "numerics",
        stroke: "var(--ink)",
        strokeWidth: 1.5,
      },
    ),
    key ? Plot.ruleX([1], { stroke: "var(--ink)", strokeDasharray: "3,3" }) : null,
  ];
  const timed = [...new Set(shown.map((row) => row.group))];
  const drawn = (groups) =>
    figure({
      title: key ? `Time as a multiple of ${baseline_title(key)}'s on the same platform.` : "Seconds.",
      note: "Lines show the standard deviation over the seeds.",
      says: shown
        .filter((row) => groups.includes(row.group))
        .map((row) => `${group_name(row.group)}, ${row.facet}, ${row.numerics}: ${number(value(row), 2)}`)
        .join("; "),
      draw: (whole) =>
        side_by_side(groups, whole, (group, width) => {
          const own = shown.filter((row) => row.group === group);
          return lane_chart({
            width,
            title: group_name(group),
            facets: [...new Set(own.map((row) => row.facet))],
            lanes: [...new Set(own.map((row) => row.numerics))],
            x: { domain: [0, largest(shown.filter((row) => groups.includes(row.group))) * 1.04], ticks: width < 640 ? 4 : 8 },
            marks: marks(own),
          });
        }),
    });
  return section(
    "timing",
    "How long they take",
    element(
      "p",
      {},
      "The time of a cell is that of all its answers, end to end, through the serving engine; it says little where a machine had other work. The paper: its kernels take 0.70 to 0.85 times as long as LayerCast on A100 and H100 and 0.32 to 0.63 times as long on L40S (Figure 4).",
    ),
    figures_of(timed, drawn),
    details(
      "Times as a table",
      table(
        "Mean over the seeds, with its standard deviation; below 1 is faster.",
        [
          { title: "numerics", head: true, of: (row) => method_name(row.numerics, colors) },
          { title: "task", of: (row) => group_name(row.group) },
          { title: "platform", of: (row) => short_run(row.run) },
          {
            title: "seconds",
            key: "seconds",
            of: (row) => ({
              text: number(row.seconds, 2),
              value: row.seconds,
              note: `± ${number(row.seconds_deviation, 2)}`,
            }),
          },
          { title: "tokens/s", of: (row) => number(row.tokens_per_second, 1) },
          ...baselines.map((name) => ({
            title: `of ${baseline_title(name)}'s time`,
            of: (row) => number(row.of_baselines[name], 2),
          })),
        ],
        rows,
      ),
    ),
  );
}
