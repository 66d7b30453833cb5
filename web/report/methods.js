// How often answers differ: what `study compare` computed, as cards, a figure and tables.
"use strict";

const COLORS = 4; // of contracts, and of baselines

// A colour per numerics, the same in every figure; contracts before baselines.
function colors_of(groups) {
  const colors = new Map();
  let [cool, warm] = [0, 0];
  const methods = groups.flatMap((group) => group.methods);
  for (const method of methods.toSorted((a, b) => b.pins_bits - a.pins_bits)) {
    if (colors.has(method.numerics)) continue;
    const variable = method.pins_bits ? `--cool-${(cool++ % COLORS) + 1}` : `--warm-${(warm++ % COLORS) + 1}`;
    colors.set(method.numerics, `var(${variable})`);
  }
  return colors;
}

const method_name = (numerics, colors) =>
  element("span", { class: "name", style: `--method: ${colors.get(numerics) ?? "var(--muted)"}` }, numerics);
const group_name = (group) => `${group.model} · ${group.task}`;

const divergent_share = (method) =>
  method.between_runs.pairs > 0 ? method.divergent_problems / method.problems : null;
const seed_share = ({ between_seeds: seeds }) => (seeds.pairs > 0 ? seeds.divergent / seeds.pairs : null);
// The pairs that margins and shifts are about.
const pairs_of = (method) => (method.between_runs.pairs > 0 ? method.between_runs : method.between_seeds);
const equal_share = (pairs) => (pairs.positions > 0 ? pairs.equal_margins / pairs.positions : null);

function summary_card(numerics, of_method, colors) {
  const total = (of) => of_method.reduce((sum, method) => sum + of(method), 0);
  const pins_bits = of_method[0].pins_bits;
  const between_runs = total((method) => method.between_runs.pairs) > 0;
  const pairs = total((method) => method.between_runs.pairs + method.between_seeds.pairs);
  const other = total(
    ({ between_runs: runs, between_seeds: seeds }) =>
      runs.divergent + runs.other_digests + seeds.divergent + seeds.other_digests,
  );
  const compared = between_runs ? of_method.filter((method) => method.between_runs.pairs > 0) : of_method;
  const part = (of) => compared.reduce((sum, method) => sum + of(method), 0);
  const share = between_runs
    ? part((method) => method.divergent_problems) / part((method) => method.problems)
    : part((method) => method.between_seeds.divergent) /
      Math.max(
        1,
        part((method) => method.between_seeds.pairs),
      );
  const [state, verdict] =
    pairs === 0
      ? ["alone", "Nothing to compare with"]
      : other === 0
        ? ["equal", `Every logit of ${count(pairs)} pairs has the same bits`]
        : [
            pins_bits ? "moved" : "differs",
            `${count(other)} of ${count(pairs)} pairs have other bits${pins_bits ? ", and must not" : ""}`,
          ];
  return element(
    "article",
    { class: "card", style: `--method: ${colors.get(numerics)}`, "data-numerics": numerics },
    element("h3", {}, numerics),
    element("p", { class: "kind" }, pins_bits ? "contract: pins every bit" : "baseline: pins none"),
    element("p", { class: "large" }, pairs === 0 ? DASH : percent(share)),
    element(
      "p",
      { class: "what" },
      between_runs
        ? `of ${count(part((method) => method.problems))} problems have another answer on another platform`
        : "of pairs of seeds have different answers",
    ),
    element("p", { class: "verdict", "data-state": state }, verdict),
  );
}

function summary(groups, colors) {
  const cards = [...colors.keys()].map((numerics) =>
    summary_card(
      numerics,
      groups.flatMap((group) => group.methods.filter((method) => method.numerics === numerics)),
      colors,
    ),
  );
  return element("div", { class: "cards" }, cards);
}

// What the paper measured for the same model and task, once per method of the paper and panel.
function paper_rings(group, panel) {
  const rings = new Map();
  for (const method of group.methods) {
    const cell = paper_cell(group, method);
    const range = panel === "runs" ? cell?.divergent : cell?.seeds;
    const key = paper_method(method);
    if (cell?.exact && range && !rings.has(key)) rings.set(key, { numerics: method.numerics, value: range[0] });
  }
  return [...rings.values()];
}

// Of many models and tasks: a line each, with the methods one above the other.
function overview_chart({ title, points, rings }, width, groups, colors) {
  const names = groups.map(group_name);
  const is_narrow = width < 460;
  const shown = (name) => (is_narrow ? name.replace(" · ", "\n") : name);
  const label = 12 + 6.6 * Math.max(...names.flatMap((name) => shown(name).split("\n")).map((line) => line.length));
  const [spacing, lane] = [4.5, Math.max(is_narrow ? 34 : 26, 4.5 * colors.size + 8)];
  const marks = [...colors].flatMap(([numerics, color], at) => {
    const dy = (at - (colors.size - 1) / 2) * spacing;
    const of_method = ({ numerics: name }) => name === numerics;
    const own = points.filter(of_method);
    return [
      Plot.link(own, {
        x1: 0,
        x2: "value",
        y1: "facet",
        y2: "facet",
        stroke: color,
        strokeWidth: 2.5,
        strokeOpacity: 0.45,
        dy,
      }),
      Plot.dot(rings.filter(of_method), { x: "value", y: "facet", r: 6, stroke: color, strokeWidth: 1.5, dy }),
      Plot.dot(own, {
        x: "value",
        y: "facet",
        r: 2.75,
        fill: color,
        dy,
        tip: true,
        title: (point) => `${point.facet}, ${numerics}: ${number(point.value, 2)} %`,
      }),
    ];
  });
  return Plot.plot({
    width,
    height: 30 + names.length * lane + 28,
    marginTop: 30,
    marginBottom: 28,
    marginLeft: label,
    marginRight: 18,
    x: { tickSize: 0, grid: true, label: null, domain: [0, 100], ticks: 5 },
    y: { domain: names, label: null, tickSize: 0, type: "band", padding: 0, tickFormat: shown },
    color: { type: "identity" },
    marks: [
      Plot.text([title], { frameAnchor: "top-left", dx: -label, dy: -24, text: (text) => text, fontWeight: 600 }),
      ...marks,
    ],
  });
}

function divergence_figure(groups, colors) {
  const panels = [
    { key: "runs", title: "Between platforms, % of problems", of: divergent_share },
    { key: "seeds", title: "Between seeds, % of pairs", of: seed_share },
  ].map((panel) => ({
    ...panel,
    points: groups.flatMap((group) =>
      group.methods
        .filter((method) => panel.of(method) !== null)
        .map((method) => ({ facet: group_name(group), numerics: method.numerics, value: 100 * panel.of(method) })),
    ),
    rings: groups.flatMap((group) =>
      paper_rings(group, panel.key).map((ring) => ({ facet: group_name(group), ...ring })),
    ),
  }));
  const shown = panels.filter((panel) => panel.points.length > 0);
  const has_paper = shown.some((panel) => panel.rings.length > 0);
  const color = (point) => colors.get(point.numerics);
  const is_overview = groups.length >= MANY;
  return figure({
    title: "How often answers differ.",
    note: has_paper ? "Rings are the paper's figures for the same model and task (Table 1)." : null,
    entries: is_overview ? [...colors].map(([text, color]) => ({ text, color, shape: "dot" })) : null,
    says: shown
      .flatMap((panel) =>
        panel.points.map((point) => `${point.facet}, ${point.numerics}, ${panel.title}: ${number(point.value, 2)}`),
      )
      .join("; "),
    draw: (whole) =>
      side_by_side(shown, whole, (panel, width) =>
        is_overview
          ? overview_chart(panel, width, groups, colors)
          : lane_chart({
              width,
              title: panel.title,
              facets: groups.map(group_name),
              lanes: [...colors.keys()],
              x: { domain: [0, 100], ticks: 5 },
              marks: [
                Plot.link(panel.points, {
                  fy: "facet",
                  x1: 0,
                  x2: "value",
                  y1: "numerics",
                  y2: "numerics",
                  stroke: color,
                  strokeWidth: 5,
                  strokeOpacity: 0.4,
                  strokeLinecap: "butt",
                }),
                Plot.dot(panel.rings, { fy: "facet", x: "value", y: "numerics", r: 7, stroke: color, strokeWidth: 1.5 }),
                Plot.dot(panel.points, {
                  fy: "facet",
                  x: "value",
                  y: "numerics",
                  r: 4,
                  fill: color,
                  tip: true,
                  title: (point) => `${point.numerics}: ${number(point.value, 2)} %`,
                }),
              ],
            }),
      ),
  });
}

function determinism_table(group, colors) {
  const divergence = (of) => (method) => {
    const value = of(method);
    if (value === null) return { text: DASH };
    return {
      text: percent(value),
      value,
      bar: value.toFixed(4),
      state: method.pins_bits ? (value === 0 ? "equal" : "moved") : null,
    };
  };
  const others = (of) => (method) => {
    const pairs = of(method);
    if (pairs.pairs === 0) return { text: DASH };
    return {
      text: `${count(pairs.other_digests)} of ${count(pairs.pairs)}`,
      value: pairs.other_digests,
      state: method.pins_bits && pairs.other_digests > 0 ? "moved" : null,
    };
  };
  const paper = (of, show) => (method) => {
    const cell = paper_cell(group, method);
    return cell ? range_text(of(cell), show) : DASH;
  };
  const exact = group.methods.some((method) => paper_cell(group, method)?.exact);
  const percentage = (value) => percent(value / 100);
  return table(
    [
      element("strong", {}, group_name(group)),
      ` ${many(group.problems, "problem")}, ${many(group.runs.length, "platform")}. The paper's columns: ${exact ? "this model and task" : "the range over its twelve models and tasks"} (Tables 1 and 5).`,
    ],
    [
      {
        title: "numerics",
        head: true,
        key: "numerics",
        of: (method) => ({ text: method_name(method.numerics, colors), value: method.numerics }),
      },
      { title: "Div% between platforms", key: "divergent", of: divergence(divergent_share) },
      { title: "paper", paper: true, of: paper((cell) => cell.divergent, percentage) },
      {
        title: "Div_Index",
        key: "div_index",
        of: (method) => ({ text: number(method.between_runs.div_index, 1), value: method.between_runs.div_index }),
      },
      {
        title: "paper",
        paper: true,
        of: paper(
          (cell) => cell.index,
          (value) => number(value, 0),
        ),
      },
      { title: "same tokens, other logits", key: "other_runs", of: others((method) => method.between_runs) },
      { title: "Div% between seeds", key: "seeds", of: divergence(seed_share) },
      { title: "paper", paper: true, of: paper((cell) => cell.seeds, percentage) },
      { title: "same tokens, other logits", key: "other_seeds", of: others((method) => method.between_seeds) },
    ],
    group.methods,
    { color: (method) => colors.get(method.numerics) },
  );
}

// What a table that is folded away comes to.
function headline(group) {
  const share = (method) => percent(divergent_share(method) ?? seed_share(method));
  return `${group_name(group)}: ${group.methods.map((method) => `${method.numerics} ${share(method)}`).join(", ")}`;
}

function determinism(groups, colors) {
  return section(
    "determinism",
    "Do answers differ?",
    element(
      "p",
      {},
      "A problem diverges where the tokens of its answers differ between at least one pair of platforms at the same seed; Div_Index is the mean index of the first other token. A seed decides in which order problems arrive, and so which of them share a batch.",
    ),
    divergence_figure(groups, colors),
    shown_at_once(groups).map((group) => determinism_table(group, colors)),
    folded_away(groups).map((group) => details(headline(group), determinism_table(group, colors))),
  );
}
