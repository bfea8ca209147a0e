// How long the answers are: of what the filters let through, right and wrong, both sides, and task by task.
const HEIGHT = 90; // pixels of a histogram
const FEWEST = 11; // bins of an axis, less one
const UNITS = ["characters", "tokens"];

// Ten steps a decade, where whole numbers allow it: answers are from one character to tens of thousands.
const EDGES = (() => {
  const steps = [10, 12, 16, 20, 25, 32, 40, 50, 63, 80];
  const edges = [...Array(10).keys()];
  for (let scale = 1; scale <= 1e8; scale *= 10) edges.push(...steps.map((one) => one * scale));
  return edges;
})();

function bin(length) {
  let [low, high] = [0, EDGES.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (EDGES[middle] <= length) low = middle;
    else high = middle - 1;
  }
  return low;
}

const spanOf = (at) => [EDGES[at], EDGES[at + 1] - 1];
const spanText = ([low, high]) => (low === high ? number.format(low) : `${number.format(low)} to ${number.format(high)}`);

// Counts by bin and outcome, and the sorted lengths, of one side; samples whose length is not known are left out.
function measured(samples, side, unit) {
  const column = index[`${side}_${unit}`];
  const bins = new Map(); // bin -> [right, partly, wrong, none]
  const all = [];
  const of = { right: [], wrong: [] };
  for (const sample of samples) {
    const length = column[sample];
    if (length === null) continue;
    const kind = word(index[side][sample]);
    const at = bin(length);
    if (!bins.has(at)) bins.set(at, { right: 0, partly: 0, wrong: 0, none: 0 });
    bins.get(at)[kind]++;
    all.push(length);
    of[kind]?.push(length);
  }
  const sorted = (list) => Float64Array.from(list).sort();
  return { bins, all: sorted(all), right: sorted(of.right), wrong: sorted(of.wrong) };
}

// The smallest length that at least this share of the answers does not exceed.
const quantile = (sorted, share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
const told = (sorted, share) => (sorted.length ? number.format(quantile(sorted, share)) : "-");
const sum = (counts) => counts.right + counts.partly + counts.wrong + counts.none;

function histogram(found, side, unit, from, to, most, height, small = false) {
  const width = 100 / (to - from + 1);
  const svg = make("svg:svg", { class: "histogram", width: "100%", height: height + (small ? 0 : 16), "aria-hidden": "true" });
  for (const [at, counts] of found.bins) {
    const [low, high] = spanOf(at);
    const total = sum(counts);
    const bar = make("svg:g", { class: "stack" }, make("svg:title", {},
      `${spanText([low, high])} ${unit}: ${plural(total, "answer")}, ${counts.right} right, ${counts.wrong} wrong${counts.partly ? `, ${counts.partly} partly` : ""}`));
    const x = `${(at - from) * width}%`;
    const wide = `${Math.max(0.3, width - 0.25)}%`;
    let y = height;
    for (const kind of ["right", "partly", "wrong", "none"]) {
      if (!counts[kind]) continue;
      const tall = Math.max(1, (counts[kind] / most) * height);
      y -= tall;
      bar.append(make("svg:rect", { class: `bar-${kind}`, x, y, width: wide, height: tall }));
    }
    if (!small) {
      bar.append(make("svg:rect", { class: "catch", x, y: 0, width: wide, height }));
      bar.addEventListener("click", () => change({ length: `${side}_${unit}:${low}-${high}` }));
    }
    svg.append(bar);
  }
  if (small) return svg;
  const every = Math.max(1, Math.ceil((to - from + 1) / 8));
  for (let at = from; at <= to; at += every) {
    svg.append(make("svg:text", { class: "tick start", x: `${(at - from) * width}%`, y: height + 13 }, number.format(EDGES[at])));
  }
  svg.append(make("svg:line", { class: "grid", x1: "0%", x2: "100%", y1: height, y2: height }));
  return svg;
}

// The axis and the height that several histograms share.
function common(list) {
  const bins = list.flatMap((found) => [...found.bins.keys()]);
  const most = Math.max(1, ...list.flatMap((found) => [...found.bins.values()].map(sum)));
  const from = Math.max(0, Math.min(...bins) - 1);
  return [from, Math.max(from + FEWEST, ...bins), most];
}

function figure(found, side, unit, [from, to, most]) {
  const summary = found.all.length
    ? `${plural(found.all.length, "answer")}: median ${told(found.all, 0.5)} (right ${told(found.right, 0.5)}, wrong ${told(found.wrong, 0.5)}), nine in ten at most ${told(found.all, 0.9)}, longest ${told(found.all, 1)} ${unit}`
    : `no lengths in ${unit} are known`;
  return make("figure", {}, make("figcaption", {}, make("b", {}, whose[side]), ` ${summary}`),
    found.all.length ? histogram(found, side, unit, from, to, most, HEIGHT) : "");
}

function numbers(both, unit, [from, to]) {
  const head = ["length", ...SIDES.flatMap((side) => [labels[side], "right"])];
  const table = make("table", { class: "numbers small" }, make("thead", {}, make("tr", {}, ...head.map((text, at) => make("th", { scope: "col", class: at ? "n" : "" }, text)))));
  const tbody = make("tbody", {});
  for (let at = from; at <= to; at++) {
    const counts = both.map((found) => found.bins.get(at));
    if (!counts.some(Boolean)) continue;
    const cells = counts.flatMap((one, number_) => {
      const side = SIDES[number_];
      const [low, high] = spanOf(at);
      const to_ = one && make("a", { href: hashOf({ ...state, sample: "", length: `${side}_${unit}:${low}-${high}` }) }, number.format(sum(one)));
      return [make("td", { class: "n" }, to_ || "0"), make("td", { class: "n" }, number.format(one?.right ?? 0))];
    });
    tbody.append(make("tr", {}, make("th", { scope: "row" }, spanText(spanOf(at))), ...cells));
  }
  table.append(tbody);
  return make("details", {}, make("summary", {}, "The same as numbers"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Lengths as numbers" }, table));
}

function byTask(unit) {
  const of = new Map();
  for (const sample of matching) {
    if (!of.has(index.task[sample])) of.set(index.task[sample], []);
    of.get(index.task[sample]).push(sample);
  }
  if (of.size < 2) return "";
  const list = make("ul", { class: "by-task" });
  const [from, to] = common(SIDES.map((side) => measured(matching, side, unit))); // one axis for all
  for (const [task, samples] of [...of].sort(([a], [b]) => a - b)) {
    const both = SIDES.map((side) => measured(samples, side, unit));
    if (!both.some((found) => found.all.length)) continue;
    const most = common(both)[2];
    const one = (found, side) => make("div", {}, histogram(found, side, unit, from, to, most, 28, true),
      make("small", {}, `${labels[side]}: median ${told(found.all, 0.5)}, nine in ten at most ${told(found.all, 0.9)}, longest ${told(found.all, 1)}`));
    list.append(make("li", {}, make("a", { class: "name", href: hashOf({ ...state, sample: "", length: "", task: index.tasks[task] }) }, plain(index.tasks[task])),
      make("div", { class: "pair" }, ...both.map((found, at) => one(found, SIDES[at])))));
  }
  return make("details", {}, make("summary", {}, "Task by task"), list);
}

let unit = UNITS[0];
function showLengths() {
  const box = $("lengths");
  $("show-lengths").setAttribute("aria-expanded", String(state.view !== ""));
  box.hidden = state.view === "";
  if (box.hidden) return;
  if (UNITS.includes(state.view)) unit = state.view;
  const both = SIDES.map((side) => measured(matching, side, unit));
  const known = UNITS.filter((one) => SIDES.some((side) => index[`${side}_${one}`].some((length) => length !== null)));
  const tools = make("p", { class: "line chips" });
  for (const one of known.length > 1 ? known : []) {
    tools.append(button(one, () => change({ view: one }), { "aria-pressed": String(one === unit) }));
  }
  tools.append(make("span", { class: "legend" }, ...["right", "partly", "wrong", "none"].map((kind) => make("span", { class: `key-${kind}` }, kind === "none" ? "no verdict" : kind))));
  if (!known.includes("tokens")) tools.append(make("small", {}, "Tokens are not known: the model's tokenizer was not on the machine that made this page."));
  const any = both.some((found) => found.all.length);
  const open = new Set([...box.querySelectorAll("details[open]")].map((one) => one.firstChild.textContent));
  box.replaceChildren(tools, ...(any
    ? [...both.map((found, at) => figure(found, SIDES[at], unit, common(both))), numbers(both, unit, common(both)), byTask(unit)]
    : [make("p", { class: "soft" }, "None of these samples has an answer with a length.")]));
  for (const one of box.querySelectorAll("details")) one.open = open.has(one.firstChild.textContent);
}
