// Why answers differ, as margins and shifts, and whether they are right.
"use strict";

// A curve is {zero, first, values}: the part that is exactly 0, and the parts at most 10^(i/16) from i = first on.
const STEPS_PER_DECADE = 16;
const curve_points = (curve, base) =>
  curve.values.map((part, at) => ({ ...base, x: 10 ** ((curve.first + at) / STEPS_PER_DECADE), part }));

function margin_figure(group, colors) {
  const margins = group.methods.flatMap((method) =>
    curve_points(method.curves.margin, { numerics: method.numerics, z: method.numerics }),
  );
  const start = (curve, base, left) =>
    curve.zero > 0
      ? [
          { ...base, x: left, part: curve.zero },
          { ...base, x: 10 ** (curve.first / STEPS_PER_DECADE), part: curve.zero },
        ]
      : [];
  const all = group.methods
    .flatMap((method) => [method.curves.margin, method.curves.shift, ...method.curves.pairs.map((pair) => pair.curve)])
    .filter((curve) => curve.values.length > 0);
  if (all.length === 0) return null;
  const left = Math.min(1e-6, 10 ** (Math.min(...all.map((curve) => curve.first)) / STEPS_PER_DECADE));
  const right = Math.max(
    10,
    10 ** (Math.max(...all.map((curve) => curve.first + curve.values.length)) / STEPS_PER_DECADE),
  );
  const line = (curve, base) => {
    if (curve.values.length > 0) {
      const points = [...start(curve, base, left), ...curve_points(curve, base)];
      return [...points, { ...base, x: right, part: points[points.length - 1].part }];
    }
    return curve.zero > 0
      ? [
          { ...base, x: left, part: curve.zero },
          { ...base, x: right, part: curve.zero },
        ]
      : [];
  };
  const shifts = group.methods.flatMap((method) =>
    line(method.curves.shift, { numerics: method.numerics, z: method.numerics }),
  );
  const pairs = group.methods.flatMap((method) =>
    method.curves.pairs.flatMap((pair) =>
      line(pair.curve, { numerics: method.numerics, z: `${method.numerics} ${pair.a} ${pair.b}` }),
    ),
  );
  const medians = group.methods
    .map((method) => ({ numerics: method.numerics, x: pairs_of(method).shift_median }))
    .filter(({ x }) => x > 0);
  const floor = Math.min(1e-3, ...margins.filter(({ part }) => part > 0).map(({ part }) => part));
  const color = (point) => colors.get(point.numerics);
  const axis = { type: "log", domain: [left, right], grid: true, tickSize: 0, tickFormat: power_of_ten };
  // Lines that lie on each other are dashed in turn.
  const flat = group.methods
    .filter(({ curves }) => curves.shift.values.length === 0 && curves.shift.zero > 0)
    .map(({ numerics }) => numerics);
  const dashes = { strokeDasharray: `8,${8 * (flat.length - 1)}` };
  const entries = group.methods.map(({ numerics }) => ({ text: numerics, color: colors.get(numerics) }));
  if (medians.length > 0) entries.push({ text: "median shift", color: "var(--muted)", shape: "dotted" });
  return figure({
    title: `Margins and shifts, ${group_name(group)}.`,
    says: group.methods
      .map(
        (method) =>
          `${method.numerics}: median margin ${scientific(method.margin_median)}, median shift ${scientific(pairs_of(method).shift_median)} nats, ${percent(equal_share(pairs_of(method)), 3)} of steps bitwise equal`,
      )
      .join("; "),
    entries,
    draw: (width) => {
      const narrow = width < 520;
      const base = { width, marginLeft: 48, marginRight: 14 };
      const ticks = decades(left, right, narrow ? 6 : 12);
      const above = Plot.plot({
        ...base,
        height: narrow ? 190 : 230,
        marginTop: 24,
        marginBottom: 24,
        x: { ...axis, ticks, label: null },
        y: {
          type: "log",
          domain: [floor, 1],
          grid: true,
          ticks: decades(floor, 1, 5),
          tickSize: 0,
          tickFormat: power_of_ten,
          label: "part of steps with margin g ≤ x",
          labelArrow: "none",
        },
        marks: [
          Plot.ruleX(medians, {
            x: "x",
            stroke: color,
            strokeDasharray: "1,4",
            strokeWidth: 2.5,
            strokeLinecap: "round",
          }),
          Plot.lineY(
            margins.filter(({ part }) => part > 0),
            { x: "x", y: "part", z: "z", stroke: color, strokeWidth: 2 },
          ),
        ],
      });
      const below = Plot.plot({
        ...base,
        height: narrow ? 190 : 230,
        marginTop: 24,
        marginBottom: 40,
        x: { ...axis, ticks, label: "nats", labelArrow: "none" },
        y: {
          domain: [0, 1],
          grid: true,
          ticks: 4,
          tickSize: 0,
          tickFormat: "%",
          label: "part of steps with shift |Δ| ≤ x",
          labelArrow: "none",
        },
        marks: [
          Plot.lineY(
            pairs.filter(({ numerics }) => !flat.includes(numerics)),
            { x: "x", y: "part", z: "z", stroke: color, strokeWidth: 1, strokeOpacity: 0.45 },
          ),
          Plot.lineY(
            shifts.filter(({ numerics }) => !flat.includes(numerics)),
            { x: "x", y: "part", z: "z", stroke: color, strokeWidth: 2.25 },
          ),
          ...flat.map((name, at) =>
            Plot.lineY(
              shifts.filter(({ numerics }) => numerics === name),
              { x: "x", y: "part", stroke: color, strokeWidth: 3, ...dashes, strokeDashoffset: -8 * at },
            ),
          ),
        ],
      });
      return element("div", {}, above, below);
    },
  });
}

function margin_table(group, colors) {
  return table(
    [element("strong", {}, group_name(group)), " In nats. Shifts are those between platforms, or else between seeds."],
    [
      {
        title: "numerics",
        head: true,
        key: "numerics",
        of: (method) => ({ text: method_name(method.numerics, colors), value: method.numerics }),
      },
      {
        title: "margin g, median",
        key: "margin_median",
        of: (method) => ({ text: scientific(method.margin_median), value: method.margin_median }),
      },
      {
        title: "slope of the tail",
        key: "tail_slope",
        of: (method) => ({ text: number(method.tail_slope, 3), value: method.tail_slope }),
      },
      {
        title: "shift |Δ|, median",
        key: "shift_median",
        of: (method) => ({ text: scientific(pairs_of(method).shift_median), value: pairs_of(method).shift_median }),
      },
      {
        title: "bitwise equal",
        key: "equal_margins",
        of: (method) => ({
          text: percent(equal_share(pairs_of(method)), 3),
          value: equal_share(pairs_of(method)),
          state: method.pins_bits ? (equal_share(pairs_of(method)) === 1 ? "equal" : "moved") : null,
        }),
      },
      { title: "paper", paper: true, of: (method) => PAPER_SHIFTS[paper_method(method)] },
      {
        title: "margin at the flip",
        key: "flip",
        of: (method) => ({
          text: scientific(pairs_of(method).flip_margin_median),
          value: pairs_of(method).flip_margin_median,
        }),
      },
      { title: "paper", paper: true, of: (method) => PAPER_FLIPS[paper_method(method)] },
      {
        title: "pairs that diverge: predicted",
        key: "predicted",
        of: (method) => ({ text: percent(method.predicted), value: method.predicted }),
      },
      {
        title: "measured",
        key: "measured",
        of: (method) => ({ text: percent(method.measured), value: method.measured }),
      },
    ],
    group.methods,
  );
}

// What a figure that is folded away comes to.
function margin_headline(group) {
  const [{ tail_slope: slope }] = group.methods;
  const measured = group.methods.filter((method) => method.measured > 0);
  return [
    `${group_name(group)}: ${slope === undefined ? "no margin below 0.1" : `a tail of ${number(slope, 3)} per nat`}`,
    ...measured.map(
      (method) => `${method.numerics} ${percent(method.predicted)} predicted, ${percent(method.measured)} measured`,
    ),
  ].join("; ");
}

function margins(groups, colors) {
  return section(
    "margins",
    "Why they differ",
    element(
      "p",
      {},
      "A token flips where arithmetic moves the margin between the two likeliest tokens by more than that margin. The paper: median margins of 4 to 19 nats, tails of 0.06 to 0.17 per nat, and predictions 1.5 times what was measured, at the median.",
    ),
    element(
      "p",
      {},
      "The figures are the paper's Figure 3. Above: the part of steps whose margin g is at most x; where a dotted line, the median shift of a method, meets the curve is the part of steps that such a shift could flip. Below: the part of steps whose shift |Δ| is at most x, over all pairs and, thin, for each pair; its height at the left is the part that is bitwise equal.",
    ),
    shown_at_once(groups).flatMap((group) => [margin_figure(group, colors), margin_table(group, colors)]),
    folded_away(groups).map((group) =>
      details(margin_headline(group), margin_figure(group, colors), margin_table(group, colors)),
    ),
  );
}

function accuracy(groups, colors) {
  const rows = groups.flatMap((group) =>
    group.methods.flatMap((method) =>
      (method.runs ?? [])
        .filter((run) => run.known_answers > 0)
        .map((run) => ({
          ...run,
          group,
          method,
          numerics: method.numerics,
          facet: short_run(run.run),
          share: run.right_answers / run.known_answers,
        })),
    ),
  );
  if (rows.length === 0) return null;
  const low = Math.max(0, Math.floor(Math.min(...rows.map((row) => row.right_low)) * 10) * 10);
  const color = (row) => colors.get(row.numerics);
  const known = [...new Set(rows.map((row) => row.group))];
  const drawn = (groups) =>
    figure({
      title: "Right answers, %.",
      says: rows
        .filter((row) => groups.includes(row.group))
        .map(
          (row) =>
            `${group_name(row.group)}, ${row.facet}, ${row.numerics}: ${percent(row.share)}, ${percent(row.right_low)} to ${percent(row.right_high)}`,
        )
        .join("; "),
      draw: (whole) =>
        side_by_side(groups, whole, (group, width) => {
          const own = rows.filter((row) => row.group === group);
          return lane_chart({
            width,
            title: group_name(group),
            facets: [...new Set(own.map((row) => row.facet))],
            lanes: [...new Set(own.map((row) => row.numerics))],
            x: { domain: [low, 100], ticks: width < 640 ? 4 : 8 },
            marks: [
              Plot.link(own, {
                fy: "facet",
                x1: (row) => 100 * row.right_low,
                x2: (row) => 100 * row.right_high,
                y1: "numerics",
                y2: "numerics",
                stroke: color,
                strokeWidth: 2,
              }),
              Plot.dot(own, {
                fy: "facet",
                x: (row) => 100 * row.share,
                y: "numerics",
                r: 4,
                fill: color,
                tip: true,
                title: (row) => `${row.numerics}: ${percent(row.share)}`,
              }),
            ],
          });
        }),
    });
  return section(
    "accuracy",
    "Are the answers right?",
    element(
      "p",
      {},
      "Right answers with 95 % intervals (Wilson), over all seeds of a platform. In the paper, LayerCast and its own kernels differ by at most 2 problems of a task.",
    ),
    figures_of(known, drawn),
    details(
      "Right answers as a table",
      table(
        "Of the answers that are known; the paper: Section “Accuracy”.",
        [
          { title: "numerics", head: true, of: (row) => method_name(row.numerics, colors) },
          { title: "task", of: (row) => group_name(row.group) },
          { title: "platform", of: (row) => short_run(row.run) },
          {
            title: "right",
            of: (row) => ({
              text: percent(row.share),
              note: `${count(row.right_answers)} of ${count(row.known_answers)}`,
            }),
          },
          { title: "95 % interval", of: (row) => `${percent(row.right_low)} to ${percent(row.right_high)}` },
          {
            title: "paper",
            paper: true,
            of: (row) => {
              const value = paper_accuracy(row.group, row.method);
              return value === null ? DASH : `${value} %`;
            },
          },
        ],
        rows,
      ),
    ),
  );
}
