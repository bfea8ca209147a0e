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

// ---- The list of tasks: its filter, and everything that is folded, opened where a link leads into it.
const taskFilter = $("task-filter");
if (taskFilter) {
  taskFilter.closest(".tools").hidden = false;
  const rows = [...document.querySelectorAll("[data-task-row]")];
  const count = $("task-count");
  taskFilter.addEventListener("input", () => {
    const wanted = taskFilter.value.trim().toLowerCase();
    const shown = new Set();
    for (const row of rows) {
      row.hidden = !row.dataset.taskRow.toLowerCase().includes(wanted);
      if (!row.hidden) shown.add(row.dataset.taskRow);
    }
    count.textContent = wanted ? plural(shown.size, "task") : "";
  });
}

// Before printing everything is unfolded: paper has no hands.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
