// The table: only the rows in view exist.
const ROW = 30; // pixels, as in the style sheet
const SPARE = 12; // rows drawn beyond what is in view
const COLUMNS = ["doc", "task", "subtask", "first", "second", "extracted", "gold", "question"];
const grid = $("grid");
const body = make("div", { class: "rowgroup", role: "rowgroup" });
const rows = new Map(); // place in order -> element
let order = []; // the samples that are shown, in the order in which they are
let chosen = -1; // a place in order
let waiting = false;

function show(found) {
  const kept = chosen < 0 ? opened : order[chosen];
  order = [...found];
  sort();
  chosen = kept < 0 ? -1 : order.indexOf(kept);
  body.style.height = `${order.length * ROW}px`;
  grid.setAttribute("aria-rowcount", order.length + 1);
  if (chosen < 0) grid.scrollTop = 0;
  else reveal();
  draw(true);
}

function value(sample, column) {
  if (column === "task") return taskOf(sample);
  if (column === "subtask") return subtaskOf(sample);
  return index[column][sample] ?? (column === "second" ? -1 : "");
}

function sort() {
  const down = state.sort.startsWith("-");
  const column = state.sort.replace(/^-/, "");
  for (const cell of grid.querySelectorAll("[role=columnheader]")) {
    if (cell.dataset.column === column) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  if (!COLUMNS.includes(column)) return;
  const text = column !== "doc" && column !== "first" && column !== "second";
  const keys = new Map(order.map((sample) => [sample, value(sample, column)]));
  const compare = text ? (a, b) => collator.compare(keys.get(a), keys.get(b)) : (a, b) => keys.get(a) - keys.get(b);
  order.sort((a, b) => (down ? -compare(a, b) : compare(a, b)) || a - b);
}

function build() {
  const head = make("div", { class: "row head", role: "row", "aria-rowindex": 1 });
  for (const column of COLUMNS) {
    const ofSecond = comparing && column === "extracted"; // the index has no other
    const label = ofSecond ? `${labels.second}: ${column}` : labels[column] ?? column;
    const title = button(label, () => change({ sort: state.sort === column ? `-${column}` : column }), { title: whose[ofSecond ? "second" : column] });
    head.append(make("div", { role: "columnheader", "data-column": column }, title));
  }
  grid.setAttribute("aria-colcount", COLUMNS.length);
  grid.append(head, body);
  grid.addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(() => draw(false));
    waiting = true;
  }, { passive: true });
  new ResizeObserver(() => draw(false)).observe(grid);
}

function cell(text) {
  return make("div", { role: "gridcell" }, text === null ? "-" : plain(text));
}

function row(place) {
  const sample = order[place];
  const flipped = flip(sample) !== "";
  const element = make(
    "div",
    { class: "row", role: "row", id: `row-${place}`, "aria-rowindex": place + 2, "aria-selected": String(place === chosen) },
    cell(String(index.doc[sample])),
    cell(taskOf(sample)),
    cell(subtaskOf(sample).replace(/^.*\.(?=.)/s, "")), // physics of mmlu_pro_chat.physics
    verdict(index.first[sample], flipped, "div", { role: "gridcell" }),
    verdict(index.second[sample], flipped, "div", { role: "gridcell" }),
    cell(index.extracted[sample]),
    cell(index.gold[sample]),
    cell(index.question[sample]),
  );
  element.style.transform = `translateY(${place * ROW}px)`;
  element.addEventListener("click", () => {
    choose(place, { follow: false });
    open(sample);
  });
  return element;
}

function draw(anew) {
  waiting = false;
  const from = Math.max(0, Math.floor(grid.scrollTop / ROW) - SPARE);
  const to = Math.min(order.length, Math.ceil((grid.scrollTop + grid.clientHeight) / ROW) + SPARE);
  for (const [place, element] of rows) {
    if (anew || place < from || place >= to) {
      element.remove();
      rows.delete(place);
    }
  }
  const fresh = [];
  for (let place = from; place < to; place++) {
    if (!rows.has(place)) {
      rows.set(place, row(place));
      fresh.push(rows.get(place));
    }
  }
  body.append(...fresh);
  if (rows.has(chosen)) grid.setAttribute("aria-activedescendant", `row-${chosen}`);
  else grid.removeAttribute("aria-activedescendant");
}

function reveal() {
  const view = grid.clientHeight - ROW; // the head covers one row
  const top = chosen * ROW;
  if (top < grid.scrollTop) grid.scrollTop = top;
  else if (top + ROW > grid.scrollTop + view) grid.scrollTop = top + ROW - view;
}

// Choose a row; a sample that is open follows.
function choose(place, { follow = true } = {}) {
  if (!order.length) return;
  rows.get(chosen)?.setAttribute("aria-selected", "false");
  chosen = Math.max(0, Math.min(order.length - 1, place));
  reveal();
  draw(false);
  rows.get(chosen)?.setAttribute("aria-selected", "true");
  if (follow && opened >= 0 && order[chosen] !== opened) change({ sample: nameOf(order[chosen]) }, { step: false });
}
