// What every part of the page uses. A text gets into the page through textContent or append and in no other way.
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const collator = new Intl.Collator("en", { numeric: true });

function make(tag, attributes = {}, ...children) {
  const element = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function button(text, act, attributes = {}) {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", act);
  return element;
}

const plural = (count, one) => `${number.format(count)} ${one}${count === 1 ? "" : "s"}`;

// ---- Theme: the system's, or what is chosen here.
const theme = $("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const next = { "": "dark", dark: "light", light: "" }[document.documentElement.dataset.theme ?? ""];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  theme.textContent = `Theme: ${next || "system"}`;
});

// ---- The list of tasks, and every other table of tasks: by a part of the name, and by what is said of them.
const taskFilter = $("task-filter");
if (taskFilter) {
  const tools = taskFilter.closest(".tools");
  const outcomes = [...tools.querySelectorAll("[data-outcome]")];
  const rows = [...document.querySelectorAll("[data-task-row]")];
  const outcomeOf = new Map(rows.filter((row) => row.dataset.taskOutcome).map((row) => [row.dataset.taskRow, row.dataset.taskOutcome]));
  const filterTasks = () => {
    const wanted = taskFilter.value.trim().toLowerCase();
    const pressed = outcomes.filter((one) => one.getAttribute("aria-pressed") === "true").map((one) => one.dataset.outcome);
    const shown = new Set();
    for (const row of rows) {
      const name = row.dataset.taskRow;
      row.hidden = !name.toLowerCase().includes(wanted) || (pressed.length > 0 && !pressed.includes(outcomeOf.get(name)));
      if (!row.hidden) shown.add(name);
    }
    $("task-count").textContent = wanted || pressed.length ? `${plural(shown.size, "task")} here and below` : "";
  };
  tools.hidden = false;
  taskFilter.addEventListener("input", filterTasks);
  for (const one of outcomes) {
    one.addEventListener("click", () => {
      one.setAttribute("aria-pressed", String(one.getAttribute("aria-pressed") !== "true"));
      filterTasks();
    });
  }
}

// Before printing everything is unfolded: paper has no hands.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
