// Elements of the page: text, tables that become lists on a phone, and figures that are drawn as wide as they stand.
"use strict";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

// Numbers as text.
const DASH = "–";
const percent = (fraction, digits = 2) =>
  fraction === null || fraction === undefined ? DASH : `${number(100 * fraction, digits).replace(/\.0+$/, "")}\u00a0%`;
const number = (value, digits) =>
  value === null || value === undefined ? DASH : value === 0 ? "0" : value.toFixed(digits);
const count = (value) => (value ?? 0).toLocaleString("en-US");
const many = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;
function scientific(value) {
  if (value === null || value === undefined) return DASH;
  if (value === 0) return "0";
  if (value >= 0.01 && value < 1000) return String(Number(value.toPrecision(2)));
  const [mantissa, exponent] = value.toExponential(1).split("e");
  return `${mantissa.replace(".0", "")}e${Number(exponent)}`;
}
const range_text = (range, show) =>
  !range ? DASH : range[0] === range[1] ? show(range[0]) : `${show(range[0])} to ${show(range[1])}`;
const short_run = (name) => name.replace(/\.run$/, "");

// columns: {title, of(row) -> text or {text, value, note, bar, state}, head: a row's header, paper: the paper's numbers}.
function table(caption, columns, rows, options = {}) {
  const head = element(
    "tr",
    { role: "row" },
    columns.map((column) =>
      element("th", { scope: "col", role: "columnheader", class: column.paper ? "paper" : null }, column.title),
    ),
  );
  const body = rows.map((row) =>
    element(
      "tr",
      { role: "row", style: options.color ? `--method: ${options.color(row)}` : null },
      columns.map((column) => {
        const found = column.of(row);
        const cell =
          found !== null && typeof found === "object" && !(found instanceof Node) ? found : { text: found ?? DASH };
        const content = [cell.text, cell.note ? element("small", {}, ` ${cell.note}`) : null];
        return element(
          column.head ? "th" : "td",
          {
            scope: column.head ? "row" : null,
            role: column.head ? "rowheader" : "cell",
            "data-label": column.head ? null : column.title,
            "data-key": column.key ?? null,
            "data-value": cell.value ?? null,
            "data-state": cell.state ?? null,
            class: column.paper ? "paper" : null,
            style: cell.bar === undefined ? null : `--bar: ${cell.bar}`,
          },
          content,
        );
      }),
    ),
  );
  return element(
    "table",
    { role: "table" },
    element("caption", {}, caption),
    element("thead", { role: "rowgroup" }, head),
    element("tbody", { role: "rowgroup" }, body),
  );
}

function section(id, title, ...children) {
  return element(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title),
    children,
  );
}

const legend = (entries) =>
  element(
    "ul",
    { class: "legend", "aria-hidden": "true" },
    entries.map(({ text, color, shape = "line" }) =>
      element("li", {}, element("span", { class: `swatch ${shape}`, style: `color: ${color}` }), text),
    ),
  );

// A figure: draw(width) gives a chart. It is drawn again when its width changes. `says` is the figure in words.
const drawings = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) target.redraw(contentRect.width);
});
function figure({ title, says, note, entries, draw }) {
  const place = element("div", { class: "chart", role: "img", "aria-label": `${title}. ${says}` });
  let drawn = 0;
  place.redraw = (width) => {
    if (width < 1 || Math.abs(width - drawn) < 1) return;
    drawn = width;
    const chart = draw(Math.floor(width));
    chart.setAttribute("aria-hidden", "true");
    place.replaceChildren(chart);
  };
  drawings.observe(place);
  return element(
    "figure",
    {},
    element("figcaption", {}, element("strong", {}, title), note ? element("span", {}, ` ${note}`) : null),
    entries ? legend(entries) : null,
    place,
  );
}

// Charts beside each other where there is room: draw(part, width) gives one.
function side_by_side(parts, width, draw) {
  const columns = width < 640 || parts.length === 1 ? 1 : 2;
  const each = Math.floor((width - (columns - 1) * 32) / columns);
  return element(
    "div",
    { class: "side-by-side" },
    parts.map((part) => draw(part, each)),
  );
}

// Of many models and tasks only the first are shown at once.
const MANY = 4;
const shown_at_once = (groups) => (groups.length < MANY ? groups : groups.slice(0, 2));
const folded_away = (groups) => (groups.length < MANY ? [] : groups.slice(2));
// One figure of all, or of the first and of the others: draw(groups) gives it.
function figures_of(groups, draw) {
  const others = folded_away(groups);
  return [
    draw(shown_at_once(groups)),
    others.length > 0 ? details(`${count(others.length)} more models and tasks`, draw(others)) : null,
  ];
}

const details = (summary, ...children) => element("details", {}, element("summary", {}, summary), children);

// A chart of horizontal lanes, one per numerics, in a facet per model and task or platform, whose name stands above it.
function lane_chart({ width, title = null, facets, lanes, x, marks }) {
  const lane = 22;
  const gap = 30;
  const label = 8 + 7.2 * Math.max(...lanes.map((name) => name.length));
  const inner = lanes.length * lane;
  const top = title ? 46 : 24;
  return Plot.plot({
    width,
    height: top + facets.length * (inner + gap) - gap + 28,
    marginTop: top,
    marginBottom: 28,
    marginLeft: label,
    marginRight: 18,
    x: { tickSize: 0, grid: true, label: null, ...x },
    y: { domain: lanes, label: null, tickSize: 0, type: "band", padding: 0.2 },
    fy: { domain: facets, axis: null, paddingInner: gap / (inner + gap), paddingOuter: 0, round: false },
    color: { type: "identity" },
    marks: [
      title
        ? Plot.text([title], {
            fy: () => facets[0],
            frameAnchor: "top-left",
            dx: -label,
            dy: -42,
            text: (text) => text,
            fontWeight: 600,
          })
        : null,
      Plot.text(facets, {
        fy: (facet) => facet,
        frameAnchor: "top-left",
        dx: -label,
        dy: -18,
        text: (facet) => facet,
        fill: "var(--muted)",
        lineWidth: width / 13,
        textOverflow: "ellipsis",
      }),
      ...marks,
    ],
  });
}

// The powers of ten from one value to another, at most so many.
function decades(from, to, most) {
  const first = Math.ceil(Math.log10(from) - 1e-9);
  const last = Math.floor(Math.log10(to) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const found = [];
  for (let at = last; at >= first; at -= step) found.unshift(10 ** at);
  return found;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
function power_of_ten(value) {
  const exponent = Math.round(Math.log10(value));
  if (Math.abs(Math.log10(value) - exponent) > 1e-6) return "";
  if (exponent >= -2 && exponent <= 2) return String(Number(value.toPrecision(1)));
  return `10${exponent < 0 ? "⁻" : ""}${[...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("")}`;
}
