// Which samples are shown.
const form = $("filters");
const search = $("search");
const chips = [...form.querySelectorAll(".chips [aria-pressed]")];
const kinds = chips.map((chip) => chip.dataset.only); // asking the page for each sample would take most of the time
const masks = kinds.map((kind) => bits[kind] ?? 0);
const SELECTS = ["task", "subtask", "first", "second"];
let haystacks = [];
let asked = 0; // the latest question; an older one that is still searching gives up
let matching = []; // what all filters but the one on lengths let through, in the order of the page

// What occurs in this page at all; a chip of what does not would only take room.
const everRaised = new Set();
function findRaised() {
  const all = index.flags.reduce((sum, one) => sum | one, 0);
  for (const [kind, bit] of Object.entries(bits)) if (all & bit) everRaised.add(kind);
  for (let sample = 0; sample < total && !(everRaised.has("first only") && everRaised.has("second only")); sample++) everRaised.add(flip(sample));
}

function haystack(sample) {
  return (haystacks[sample] ??= [
    index.question[sample], index.extracted[sample] ?? "", index.gold[sample], index.hash[sample], subtaskOf(sample),
  ].join("\n").toLowerCase());
}

function lengthFilter() {
  const found = /^(first|second)_(characters|tokens):(\d+)-(\d+)$/.exec(state.length);
  return found && { of: found[1], unit: found[2], low: Number(found[3]), high: Number(found[4]) };
}

async function refresh() {
  const mine = ++asked;
  const wanted = state.q.trim().toLowerCase();
  const only = state.only ? state.only.split(",") : [];
  const flips = only.filter((one) => !(one in bits));
  const mask = only.reduce((sum, one) => sum | (bits[one] ?? 0), 0);
  const task = index.tasks.indexOf(state.task);
  const lengths = lengthFilter();
  const column = lengths && index[`${lengths.of}_${lengths.unit}`];
  const counts = chips.map(() => 0);
  let found = [];
  for (let sample = 0; sample < total; sample++) {
    if (state.task && index.task[sample] !== task) continue;
    if (state.subtask && subtaskOf(sample) !== state.subtask) continue;
    if (state.first && word(index.first[sample]) !== state.first) continue;
    if (state.second && word(index.second[sample]) !== state.second) continue;
    if (wanted && !state.deep && !haystack(sample).includes(wanted)) continue;
    const flipped = flip(sample);
    const flags = index.flags[sample];
    for (let at = 0; at < kinds.length; at++) {
      if (kinds[at] === flipped || flags & masks[at]) counts[at]++;
    }
    if (flips.length && !flips.includes(flipped)) continue;
    if (mask && !(index.flags[sample] & mask)) continue;
    found.push(sample);
  }
  // What is in whole texts is not counted for the chips: that would unpack everything on every key.
  const inside = wanted && state.deep;
  chips.forEach((chip, at) => {
    chip.querySelector("span").textContent = inside ? "" : number.format(counts[at]);
    chip.hidden = !everRaised.has(kinds[at]) && !only.includes(kinds[at]);
  });
  if (inside) found = await deep(found, wanted, mine);
  if (mine !== asked) return false;
  matching = found;
  show(column ? found.filter((sample) => column[sample] !== null && column[sample] >= lengths.low && column[sample] <= lengths.high) : found);
  $("status").textContent = `${number.format(order.length)} of ${plural(total, "sample")}`;
  $("nothing").hidden = order.length > 0;
  for (const one of document.querySelectorAll("[data-export]")) one.disabled = order.length === 0;
  return true;
}

async function deep(candidates, wanted, mine) {
  const found = [];
  for await (const [sample, text, at] of whole(candidates)) {
    if (mine !== asked) return found;
    const parts = [text.prompt, text.recorded_text ?? "", ...text.answers.map((answer) => answer.text), haystack(sample)];
    if (parts.some((part) => part.toLowerCase().includes(wanted))) found.push(sample);
    if (at % 100 === 0) $("status").textContent = `searching: ${number.format(at)} of ${plural(candidates.length, "sample")}`;
  }
  return found;
}

// ---- The controls, from the state and into it.
function options(select, names) {
  select.replaceChildren(select.options[0], ...names.map((name) => make("option", { value: name }, plain(name))));
}

let subtasksOf; // the task whose subtasks are offered
function subtasks() {
  if (subtasksOf === state.task) return;
  subtasksOf = state.task;
  const task = index.tasks.indexOf(state.task);
  const found = new Set();
  for (let sample = 0; sample < total; sample++) {
    if (task < 0 || index.task[sample] === task) found.add(subtaskOf(sample));
  }
  found.delete("");
  options($("subtask"), [...found].sort(collator.compare));
  $("subtask").closest("label").hidden = found.size === 0;
}

function reflect() {
  subtasks();
  for (const name of SELECTS) {
    $(name).value = state[name];
    if ($(name).selectedIndex < 0) $(name).value = state[name] = ""; // a link may name what this page has not
  }
  browser.classList.toggle("one-task", state.task !== "");
  if (search.value !== state.q) search.value = state.q;
  $("deep").checked = state.deep !== "";
  const only = state.only.split(",");
  for (const chip of chips) chip.setAttribute("aria-pressed", String(only.includes(chip.dataset.only)));
  const lengths = lengthFilter();
  const range = $("range");
  range.hidden = !lengths;
  if (lengths) {
    const whole = lengths.low === lengths.high ? number.format(lengths.low) : `${number.format(lengths.low)} to ${number.format(lengths.high)}`;
    range.textContent = `${labels[lengths.of]}: ${whole} ${lengths.unit} ✕`;
  } else state.length = "";
}

let typing = false; // the first letter is a step back, the others are not
function wireFilters() {
  let timer;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    const { id } = event.target;
    if (id === "search") {
      clearTimeout(timer);
      timer = setTimeout(() => {
        change({ q: search.value }, { step: !typing });
        typing = true;
      }, 120);
    } else if (id === "deep") change({ deep: $("deep").checked ? "1" : "" });
    else if (id === "task") change({ task: $("task").value, subtask: "" });
    else change({ [id]: event.target.value });
  });
  search.addEventListener("blur", () => (typing = false));
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    change({ ...EMPTY, view: state.view, sort: state.sort });
  });
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      const only = new Set(state.only ? state.only.split(",") : []);
      if (!only.delete(chip.dataset.only)) only.add(chip.dataset.only);
      change({ only: [...only].join(",") });
    });
  }
  $("range").addEventListener("click", () => change({ length: "" }));
  $("copy-filter").addEventListener("click", () => copy(link({ ...state, sample: "" }), "link to this filter"));
}
