// Speed-ups, memory and the rules of the contract, where there are measurements of them.
"use strict";

// What a linear bench says of its device: FLOP per byte, from the peak of FMAs and the bandwidth of a streaming read.
function device_ratios(benches) {
  const ratios = new Map();
  for (const run of benches.flatMap((bench) => bench.runs ?? [])) {
    const rates = run.rows.filter((row) => row.fma_fraction > 0).map((row) => row.gigaflops / row.fma_fraction);
    const reads = run.rows.map((row) => row.read_bytes / row.read.median_s / 1e9);
    if (rates.length > 0) ratios.set(run.device, Math.max(...rates) / Math.max(...reads));
  }
  return ratios;
}

const LINEAR = "linear layers";
const END_TO_END = "end to end";

function speedup_points(benches, groups) {
  const ratios = device_ratios(benches);
  const points = [];
  const add = (device, numerics, { pins_bits }, speedup, what) => {
    if (ratios.has(device) && speedup > 0 && pins_bits)
      points.push({ device, ratio: ratios.get(device), numerics, speedup, what });
  };
  for (const bench of benches) {
    for (const run of bench.runs ?? [])
      for (const forward of run.forwards.filter(({ m }) => m <= 64))
        add(run.device, run.contract, run, forward[`${PAPER_SPEED_BASELINE}_ratio`], LINEAR);
    if (bench.baseline === PAPER_SPEED_BASELINE)
      for (const row of bench.rows) add(bench.device, row.numerics, row, row.times_baseline, END_TO_END);
  }
  for (const row of time_rows(groups))
    add(row.device, row.numerics, row.method, 1 / row.of_baselines[PAPER_SPEED_BASELINE], END_TO_END);
  return points;
}

// Times as fast, of a decode step of M rows: LayerCast moves so many bytes per weight where fused kernels read two.
const ROOFLINE_ROWS = 32;
const roofline = (bytes) =>
  Array.from({ length: 121 }, (_, at) => {
    const ratio = 4 * 50 ** (at / 120);
    const compute = (2 * ROOFLINE_ROWS) / ratio;
    return { ratio, speedup: Math.max(bytes, compute) / Math.max(2, compute) };
  });

function speedups(benches, groups, colors) {
  const points = speedup_points(benches, groups);
  if (points.length === 0) return null;
  const key_of = (point) => [point.device, point.numerics, point.what].join("\n");
  const means = [...new Set(points.map(key_of))].map((key) => {
    const same = points.filter((point) => key_of(point) === key);
    const speeds = same.map((point) => point.speedup);
    return {
      ...same[0],
      speedup: speeds.reduce((sum, speed) => sum + speed) / speeds.length,
      low: Math.min(...speeds),
      high: Math.max(...speeds),
    };
  });
  const solid = (point) => (point.what === END_TO_END ? color(point) : "var(--page)");
  const color = (point) => colors.get(point.numerics) ?? "var(--cool-3)";
  const numerics = [...new Set(points.map((point) => point.numerics))];
  const top = Math.max(6, ...points.map((point) => point.speedup * 1.2));
  const bottom = Math.min(0.9, ...points.map((point) => point.speedup * 0.9));
  const ratios = [...points, ...PAPER_SPEEDUPS].map((point) => point.ratio);
  return section(
    "speedup",
    "Speed over the balance of the machine",
    element(
      "p",
      {},
      "The more arithmetic a machine has for each byte that it reads, the more is won by reading weights of 16 bits: the paper's Figure 5, with the points of our benches.",
    ),
    figure({
      title: "Times as fast as LayerCast over FP32 compute to bandwidth.",
      note: `Small points are batches of 1 to 64, large ones their means: filled end to end, hollow of linear layers alone. Lines are rooflines of a decode step of ${ROOFLINE_ROWS} rows: where LayerCast reads 4 bytes per weight, and where its cast's traffic counts too, 10.`,
      says: means
        .map(
          (mean) =>
            `${mean.device}, ${mean.numerics}, ${mean.what}: ${number(mean.speedup, 2)} times at ${number(mean.ratio, 1)} FLOP/byte`,
        )
        .join("; "),
      entries: [
        ...numerics.map((name) => ({ text: name, color: color({ numerics: name }), shape: "dot" })),
        { text: "paper", color: "var(--paper)", shape: "line" },
        { text: "roofline, 4 bytes", color: "var(--muted)", shape: "dashed" },
        { text: "roofline, 10 bytes", color: "var(--muted)", shape: "dotted" },
      ],
      draw: (width) =>
        Plot.plot({
          width,
          height: width < 520 ? 280 : 340,
          marginLeft: 44,
          marginRight: 28,
          marginTop: 26,
          marginBottom: 42,
          x: {
            type: "log",
            domain: [Math.min(4, ...ratios), Math.max(200, ...ratios)],
            ticks: [5, 10, 20, 50, 100, 200],
            tickFormat: String,
            tickSize: 0,
            grid: true,
            label: "FLOP per byte",
            labelArrow: "none",
          },
          y: {
            type: "log",
            domain: [bottom, top],
            ticks: [0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50].filter((value) => value >= bottom && value <= top),
            tickFormat: (value) => `${value}×`,
            tickSize: 0,
            grid: true,
            label: "times as fast as LayerCast",
            labelArrow: "none",
          },
          color: { type: "identity" },
          marks: [
            Plot.lineY(roofline(4), { x: "ratio", y: "speedup", stroke: "var(--muted)", strokeDasharray: "6,4" }),
            Plot.lineY(roofline(10), {
              x: "ratio",
              y: "speedup",
              stroke: "var(--muted)",
              strokeDasharray: "1,4",
              strokeWidth: 2,
              strokeLinecap: "round",
            }),
            Plot.link(PAPER_SPEEDUPS, {
              x1: "ratio",
              x2: "ratio",
              y1: "low",
              y2: "high",
              stroke: "var(--paper)",
              strokeWidth: 5,
              strokeLinecap: "round",
            }),
            Plot.text(PAPER_SPEEDUPS, { x: "ratio", y: "high", dy: -13, text: "device", fill: "var(--paper)" }),
            Plot.dot(points, { x: "ratio", y: "speedup", r: 2.5, fill: color, fillOpacity: 0.6 }),
            Plot.dot(means, {
              x: "ratio",
              y: "speedup",
              r: 6.5,
              fill: solid,
              stroke: color,
              strokeWidth: 2.5,
              tip: true,
              title: (mean) => `${mean.device}\n${mean.numerics}, ${mean.what}: ${number(mean.speedup, 2)}×`,
            }),
          ],
        }),
    }),
    table(
      "Times as fast as LayerCast; the paper's devices below ours.",
      [
        { title: "device", head: true, of: (row) => row.device },
        {
          title: "numerics",
          of: (row) =>
            row.numerics
              ? method_name(row.numerics, new Map([[row.numerics, color(row)]]))
              : { text: "paper, Figure 5" },
        },
        { title: "of", of: (row) => row.what ?? END_TO_END },
        { title: "FLOP per byte", of: (row) => number(row.ratio, 1) },
        { title: "mean", of: (row) => (row.speedup ? `${number(row.speedup, 2)}×` : DASH) },
        { title: "range", of: (row) => `${number(row.low, 2)}× to ${number(row.high, 2)}×` },
      ],
      [...means, ...PAPER_SPEEDUPS],
    ),
  );
}

const GIB = 2 ** 30;
function memory(tables, colors) {
  const rows = tables.flatMap((of) =>
    of.rows.map((row) => ({ ...row, device: of.device, budget: of.budget_bytes, facet: row.shape })),
  );
  if (rows.length === 0) return null;
  const color = (row) => colors.get(row.numerics) ?? "var(--muted)";
  const from_paper = (row) => {
    const found = PAPER_MEMORY.find(({ shapes }) => shapes.test(plain_name(row.shape)));
    return found?.[paper_method(row)] ?? null;
  };
  const bars = rows.flatMap((row) => [
    { ...row, gib: row.resident_weight_bytes / GIB, opacity: 0.85 },
    { ...row, gib: row.transient_peak_bytes / GIB, opacity: 0.35 },
  ]);
  return section(
    "memory",
    "Memory",
    element(
      "p",
      {},
      "Weights that stay, what one forward pass takes on top, and the tokens of keys and values that the rest of the budget holds. The paper: Table 2, under a budget of its own.",
    ),
    figure({
      title: "GiB of weights and, lighter, of the peak of a forward pass.",
      says: rows
        .map(
          (row) =>
            `${row.shape}, ${row.numerics}: ${number(row.resident_weight_bytes / GIB, 2)} and ${number(row.transient_peak_bytes / GIB, 3)} GiB`,
        )
        .join("; "),
      draw: (width) =>
        lane_chart({
          width,
          facets: [...new Set(rows.map((row) => row.shape))],
          lanes: [...new Set(rows.map((row) => row.numerics))],
          x: { ticks: width < 520 ? 4 : 8 },
          marks: [
            Plot.barX(bars, {
              fy: "facet",
              x: "gib",
              y: "numerics",
              fill: color,
              fillOpacity: "opacity",
              tip: true,
              title: (row) => `${row.numerics}: ${number(row.gib, 3)} GiB`,
            }),
          ],
        }),
    }),
    table(
      [...new Set(tables.map((of) => `${of.device}, a budget of ${number(of.budget_bytes / GIB, 1)} GiB`))].join("; "),
      [
        {
          title: "numerics",
          head: true,
          of: (row) => method_name(row.numerics, new Map([[row.numerics, color(row)]])),
        },
        { title: "model", of: (row) => row.shape },
        { title: "weights, GiB", of: (row) => number(row.resident_weight_bytes / GIB, 2) },
        { title: "paper", paper: true, of: (row) => number(from_paper(row)?.[0], 2) },
        { title: "peak, GiB", of: (row) => number(row.transient_peak_bytes / GIB, 3) },
        { title: "paper", paper: true, of: (row) => number(from_paper(row)?.[1], 3) },
        { title: "tokens of keys and values", of: (row) => count(row.kv_tokens) },
        { title: "paper", paper: true, of: (row) => (from_paper(row) ? count(from_paper(row)[2]) : DASH) },
      ],
      rows,
    ),
  );
}

// Three digits, and no row of zeros.
const scientific3 = (value) => (Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(3))));

function ablations(files) {
  const experiments = files.flatMap((file) => file.experiments);
  if (experiments.length === 0) return null;
  const shown = (value) =>
    typeof value === "number" && !Number.isInteger(value) ? scientific3(value) : value === null ? DASH : String(value);
  return section(
    "ablations",
    "What each rule is worth",
    element("p", {}, "The rules of the contract, one switched off at a time."),
    experiments.map((experiment) =>
      element(
        "article",
        {},
        element("h3", {}, experiment.title, element("small", {}, ` ${experiment.machine}`)),
        experiment.cpu_analogue ? element("p", { class: "note" }, `CPU analogue: ${experiment.cpu_analogue}`) : null,
        element(
          "ul",
          { class: "claims" },
          experiment.claims.map((claim) => element("li", { "data-state": claim.held ? "held" : "broken" }, claim.text)),
        ),
        PAPER_ABLATIONS[experiment.rule] ? element("p", { class: "citation" }, PAPER_ABLATIONS[experiment.rule]) : null,
        details(
          "Its tables",
          experiment.tables
            .filter((of) => of.rows.length > 0)
            .map((of) => [
              table(
                of.title,
                Object.keys(of.rows[0]).map((column, at) => ({
                  title: column,
                  head: at === 0,
                  of: (row) => shown(row[column]),
                })),
                of.rows,
              ),
              of.note ? element("p", { class: "note" }, of.note) : null,
            ])
            .flat(),
        ),
      ),
    ),
  );
}
