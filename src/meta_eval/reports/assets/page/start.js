// Keys, and what happens at the beginning.
grid.addEventListener("keydown", (event) => {
  if (event.target !== grid || event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, Math.floor(grid.clientHeight / ROW) - 2);
  const to = {
    ArrowDown: chosen + 1, ArrowUp: chosen < 0 ? 0 : chosen - 1, PageDown: chosen + page, PageUp: chosen - page,
    Home: 0, End: order.length - 1,
  }[event.key];
  if (to !== undefined) choose(to);
  else if ((event.key === "Enter" || event.key === " ") && order.length) {
    if (chosen < 0) choose(0, { follow: false });
    open(order[chosen], true);
  } else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape" && opened >= 0) close(true);
  else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    if (narrow.matches) close(false);
    search.focus();
    search.select();
    event.preventDefault();
  } else if ((event.key === "Enter" || event.key === "ArrowDown") && event.target === search) {
    grid.focus();
    if (chosen < 0) choose(0);
    event.preventDefault();
  }
});

// Everything that the state says, shown. What the latest change cannot have touched is not done again.
const before = {};
function touched(what, ...names) {
  const now = JSON.stringify(names.map((name) => state[name]));
  if (before[what] === now) return false;
  before[what] = now;
  return true;
}

async function apply() {
  reflect();
  const filtered = touched("filters", "task", "subtask", "first", "second", "only", "length", "q", "deep");
  const sorted = touched("sort", "sort");
  const measured = touched("view", "view");
  if (filtered) {
    if (!(await refresh())) return;
  } else if (sorted) show(order);
  if (filtered || measured) showLengths();
  if (touched("sample", "sample", "beside") || filtered) await showSample();
}

async function start() {
  index = await unpack($("index"));
  total = index.doc.length;
  options($("task"), index.tasks);
  findRaised();
  build();
  buildPane();
  wireFilters();
  $("show-lengths").addEventListener("click", () => change({ view: state.view ? "" : unit }));
  for (const one of document.querySelectorAll("[data-export]")) one.addEventListener("click", () => download(one.dataset.export));
  addEventListener("hashchange", () => arrive().catch(trouble));
  browser.hidden = false;
  await arrive();
}

start().catch(trouble);
