// The pane of one sample.
const pane = $("pane");
const narrow = matchMedia("(max-width: 60rem)");
let opened = -1; // the sample that it shows

// In an address: the task, and lm-eval's number of the doc, which is the same in every page of this pack.
const nameOf = (sample) => `${taskOf(sample)}/${index.doc[sample]}`;

function sampleOf(name) {
  const at = name.lastIndexOf("/");
  const [task, id] = [index.tasks.indexOf(name.slice(0, at)), name.slice(at + 1)];
  let hashed = -1;
  for (let sample = 0; sample < total; sample++) {
    if (index.task[sample] !== task) continue;
    if (String(index.doc[sample]) === id) return sample;
    if (hashed < 0 && id.length >= 8 && index.hash[sample].startsWith(id.slice(0, 12))) hashed = sample;
  }
  return hashed;
}

// Where the pane covers the page, what it covers cannot be reached.
function cover() {
  const covered = !pane.hidden && narrow.matches;
  const beside = [...browser.querySelectorAll(":scope > :not(.split)"), grid];
  for (const element of [...document.querySelectorAll(".top, .bar-of-page, footer"), ...beside]) element.inert = covered;
  for (const section of document.querySelectorAll("main > section:not(#samples)")) section.inert = covered;
}

async function open(sample, focus = false) {
  if (sample < 0) return;
  await change({ sample: nameOf(sample) }, { step: opened < 0 });
  if (focus) $("pane-title").focus();
}

function close(focus) {
  if (opened < 0) return;
  change({ sample: "" });
  if (focus) grid.focus({ preventScroll: true });
}

// Show the sample of the address, or none.
async function showSample() {
  const sample = state.sample ? sampleOf(state.sample) : -1;
  if (state.sample && sample < 0) say("The sample of this address is not in this page.");
  opened = sample;
  pane.hidden = sample < 0;
  browser.classList.toggle("open", sample >= 0);
  cover();
  if (sample >= 0) {
    const place = order.indexOf(sample);
    if (place !== chosen) {
      rows.get(chosen)?.setAttribute("aria-selected", "false");
      chosen = place;
    }
    if (chosen >= 0) reveal();
    await fillPane(sample);
  }
  draw(false);
  rows.get(chosen)?.setAttribute("aria-selected", "true");
}

function buildPane() {
  const title = make("h3", { id: "pane-title", tabindex: -1, class: "name" });
  const labelled = (label, text, act) => button(text, act, { "aria-label": label, title: label });
  pane.append(
    make("div", { class: "bar" }, title,
      labelled("Previous sample", "↑", () => choose(chosen - 1)), labelled("Next sample", "↓", () => choose(chosen + 1)),
      labelled("Close", "✕", () => close(true))),
    make("p", { class: "line actions" },
      button("Copy link", () => copy(link({ sample: nameOf(opened) }), "link to this sample")),
      button("Copy as Markdown", async () => copy(markdown(opened, await texts(opened)), "sample as Markdown"))),
    make("div", {}),
  );
  narrow.addEventListener("change", cover);
}

// Every answer there is: ours and Meta's recorded one; A's and B's, and Meta's recorded one.
function answersOf(sample, text) {
  const given = text.answers.map((answer, at) => ({
    ...answer, side: SIDES[at], label: labels[SIDES[at]], whose: whose[SIDES[at]],
  }));
  if (text.recorded_text !== null) {
    const tokens = text.recorded_tokens;
    given.push({ side: "recorded", label: recorded, whose: `${recorded}, recorded`, text: text.recorded_text, verdict: text.recorded_verdict, tokens, flags: [], limit: null });
  }
  return given;
}

function sizeOf(answer) {
  const parts = [plural(characters(answer.text), "character")];
  if (answer.tokens !== null) parts.push(answer.limit === null ? plural(answer.tokens, "token") : `${number.format(answer.tokens)} of ${number.format(answer.limit)} tokens`);
  else if (answer.limit !== null) parts.push(`at most ${plural(answer.limit, "token")}`);
  return parts.join(" · ");
}

function block(title, text, { end = false, runs = null, extra = [], note = "" } = {}) {
  const heading = make("h4", {}, title, ...extra, note && make("span", { class: "soft" }, ` · ${note}`));
  const pre = make("pre", { tabindex: 0, role: "region", "aria-label": title });
  if (runs) pre.append(...runs);
  else fill(pre, text);
  if (end) requestAnimationFrame(() => (pre.scrollTop = pre.scrollHeight));
  return make("div", {}, heading, pre);
}

function answerBlock(answer, runs = null) {
  const extra = answer.verdict === null ? [] : [" · ", verdict(answer.verdict, false)];
  return block(answer.side === "recorded" ? `${recorded === "Meta's" ? `${recorded} recorded` : recorded} answer` : `Answer, ${answer.whose}`, answer.text, { runs, extra, note: sizeOf(answer) });
}

// Two answers side by side, with what the other has not marked.
function besideEachOther(left, right) {
  const told = make("p", { class: "soft told" });
  let runs = [null, null];
  if (left.text === right.text) told.textContent = "The two answers are the same, letter for letter.";
  else if (isLong(left.text) || isLong(right.text)) {
    told.textContent = `The difference is not marked: one of the answers is longer than ${number.format(2 * SHOWN)} characters.`;
  } else if (state.beside.endsWith("plain")) told.textContent = "";
  else {
    const [a, b] = difference(left.text, right.text);
    runs = [marked(a, "first"), marked(b, "second")];
    const words = (all) => all.reduce((sum, [text, same]) => sum + (same ? 0 : (text.match(/[\p{L}\p{N}_]+/gu) ?? []).length), 0);
    told.append("Marked: ", make("mark", { class: "first" }, `${plural(words(a), "word")} only in ${left.label}`), " ",
      make("mark", { class: "second" }, `${plural(words(b), "word")} only in ${right.label}`));
  }
  return [told, make("div", { class: "answers two" }, answerBlock(left, runs[0]), answerBlock(right, runs[1]))];
}

function answersBlock(given) {
  if (given.length < 2) return [make("div", { class: "answers" }, answerBlock(given[0]))];
  const [pair, plainly] = [state.beside.replace(/-?plain$/, ""), state.beside.endsWith("plain")];
  const pairs = { "": [0, 1], first: [0, 2], second: [1, 2] };
  const chosenPair = given.length > 2 && pair in pairs ? pair : "";
  const [left, right] = pairs[chosenPair].map((at) => given[at]);
  const tools = make("div", { class: "line chips", role: "group", "aria-label": "Answers side by side" });
  const write = (name, off) => change({ beside: [name, off && "plain"].filter(Boolean).join("-") });
  if (given.length > 2) {
    for (const [name, [a, b]] of Object.entries(pairs)) {
      tools.append(button(`${given[a].label} | ${given[b].label}`, () => write(name, plainly), { "aria-pressed": String(name === chosenPair) }));
    }
  }
  tools.append(button("mark the difference", () => write(chosenPair, !plainly), { "aria-pressed": String(!plainly) }));
  const rest = given.filter((one) => one !== left && one !== right).map((one) => answerBlock(one));
  return [tools, ...besideEachOther(left, right), ...rest];
}

function fact(list, name, ...content) {
  list.append(make("dt", {}, name), ...content);
}

function shown(text, nothing) {
  if (text === null) return make("dd", { class: "soft" }, nothing);
  const element = make("dd", { class: "code" });
  fill(element, text);
  return element;
}

// A line for each metric; of two runs with the value of each.
function metricsOf(text) {
  const names = [...new Set(text.answers.flatMap((answer) => Object.keys(answer.metrics)))];
  const values = (name) => text.answers.map((answer, at) => `${comparing ? `${labels[SIDES[at]]} ` : ""}${answer.metrics[name] ?? "-"}`);
  return names.map((name) => `${name}: ${values(name).join(" · ")}`).join("\n");
}

function titleOf(sample) {
  return plain([taskOf(sample), subtaskOf(sample), `doc ${index.doc[sample]}`].filter(Boolean).join(" · "));
}

async function fillPane(sample) {
  const text = await texts(sample).catch((error) => trouble(error));
  if (!text || sample !== opened) return;
  const flipped = flip(sample) !== "";
  const given = answersOf(sample, text);
  $("pane-title").textContent = titleOf(sample);
  const facts = make("dl", { class: "outcome" });
  text.answers.forEach((answer, at) => {
    const dd = make("dd", {}, verdict(answer.verdict, flipped));
    if (answer.flags.length) dd.append(` · ${answer.flags.join(" · ")}`);
    fact(facts, whose[SIDES[at]], dd);
  });
  if (text.recorded_verdict !== null) {
    fact(facts, `${recorded}, recorded`, make("dd", {}, verdict(text.recorded_verdict, flipped && !comparing)));
  }
  if (text.gold) fact(facts, "gold", shown(text.gold));
  text.answers.forEach((answer, at) => {
    const nothing = answer.flags.includes("unextracted") ? "nothing was found" : "the whole answer is graded";
    fact(facts, comparing ? `extracted, ${labels[SIDES[at]]}` : "extracted", shown(answer.extracted, nothing));
  });
  if (text.hash) fact(facts, "question hash", shown(text.hash));
  const content = make("div", {});
  if (chosen < 0) content.append(make("p", { class: "soft told" }, "The filters leave this sample out of the table."));
  const others = comparing && text.answers.some((answer) => answer.flags.includes("other prompt"));
  const prompt = others ? `Prompt, ${whose.first}` : "Prompt";
  content.append(facts, ...answersBlock(given), block(prompt, text.prompt, { end: true, note: plural(characters(text.prompt), "character") }));
  const metrics = metricsOf(text);
  if (metrics) content.append(block("Metrics", metrics));
  pane.lastElementChild.replaceWith(content);
  pane.scrollTop = 0;
}

// One sample for a bug report. A fence is longer than any run of backticks within it.
function markdown(sample, text) {
  const fenced = (content) => {
    const longest = Math.max(2, ...(content.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(longest + 1);
    return `${fence}text\n${content}\n${fence}`;
  };
  const given = answersOf(sample, text);
  return [
    `### ${titleOf(sample).replace(/[\\`*_<>#|[\]]/g, "\\$&").replace(/\s+/g, " ")}`,
    [
      ...given.map((one) => `- ${one.whose}: ${word(one.verdict)}${one.flags.length ? ` (${one.flags.join(", ")})` : ""}`),
      `- question hash: ${text.hash}`,
    ].join("\n"),
    ...[["Gold", text.gold], ...given.map((one) => [`Answer, ${one.whose}`, one.text]), ["Prompt", text.prompt]].map(
      ([title, content]) => `**${title}**\n\n${fenced(content)}`,
    ),
  ].join("\n\n") + "\n";
}

function trouble(error) {
  $("trouble").textContent = `The samples cannot be unpacked (${error.message}): the file is cut off, or the browser is older than 2023.`;
}
