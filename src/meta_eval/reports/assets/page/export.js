// The rows that are shown, as files: JSON Lines with all texts, CSV for spreadsheets without the prompts.
const ROWS_A_PART = 500; // what is written is handed to the browser in parts, which need not stay in memory

function record(sample, text) {
  const answers = Object.fromEntries(answersOf(sample, text).map((one) => [
    one.side === "recorded" ? "recorded" : one.label,
    {
      run: one.side === "recorded" ? undefined : one.whose, verdict: one.verdict, extracted: one.extracted, flags: one.flags,
      tokens: one.tokens, max_tokens: one.limit, text: one.text,
    },
  ]));
  const found = { task: taskOf(sample), subtask: subtaskOf(sample) || null, doc: index.doc[sample], question_hash: text.hash, question: text.question, gold: text.gold };
  return { ...found, recorded_verdict: text.recorded_verdict, answers, prompt: text.prompt };
}

// A spreadsheet takes what begins like a formula for one: an apostrophe makes it text. Numbers stay numbers.
function field(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  const harmless = !/^[\s]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(text) || /^-?\d+(\.\d+)?$/.test(text);
  return `"${(harmless ? text : `'${text}`).replace(/"/g, '""')}"`;
}

function csvHead() {
  const sides = SIDES.slice(0, comparing ? 2 : 1).flatMap((side) => ["verdict", "extracted", "flags", "characters", "tokens", "answer"].map((one) => `${labels[side]} ${one}`));
  return ["task", "subtask", "doc", "question_hash", "question", "gold", ...sides, "recorded verdict", "recorded answer"].map(field).join(",");
}

function csvRow(sample, text) {
  const sides = text.answers.flatMap((one, at) => [one.verdict, one.extracted, one.flags.join(" + "), index[`${SIDES[at]}_characters`][sample], one.tokens, one.text]);
  return [taskOf(sample), subtaskOf(sample), index.doc[sample], text.hash, text.question, text.gold, ...sides, text.recorded_verdict, text.recorded_text].map(field).join(",");
}

async function exported(kind) {
  const samples = [...order];
  const inOrder = [...samples].sort((a, b) => a - b); // each chunk is unpacked once
  const parts = [];
  let waiting = kind === "csv" ? ["\ufeff", csvHead(), "\r\n"] : [];
  for await (const [sample, text, at] of whole(inOrder)) {
    waiting.push(kind === "csv" ? csvRow(sample, text) : JSON.stringify(record(sample, text)), kind === "csv" ? "\r\n" : "\n");
    if (at % ROWS_A_PART === 0) {
      parts.push(new Blob(waiting));
      waiting = [];
      say(`writing: ${number.format(at)} of ${plural(samples.length, "sample")}`);
    }
  }
  return new Blob([...parts, ...waiting], { type: kind === "csv" ? "text/csv;charset=utf-8" : "application/jsonl" });
}

async function download(kind) {
  const buttons = document.querySelectorAll("[data-export]");
  for (const one of buttons) one.disabled = true;
  try {
    const count = order.length;
    const url = URL.createObjectURL(await exported(kind));
    const name = (state.task || "samples").replace(/[^\w.-]+/g, "_");
    make("a", { href: url, download: `${name}.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    say(`Wrote ${plural(count, "sample")}.`);
  } catch (error) {
    trouble(error);
  } finally {
    for (const one of buttons) one.disabled = order.length === 0;
  }
}
