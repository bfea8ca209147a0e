// The samples: an index that is unpacked at once, and chunks of whole texts that are unpacked on demand.
const browser = $("browser");
const KEPT = 6; // unpacked chunks that are kept
const elements = document.getElementsByClassName("chunk"); // live: a large file is still being read when this starts
const cache = new Map();
const comparing = browser.dataset.documentType === "compare";
const FLAGS = browser.dataset.flags.split(",");
const bits = Object.fromEntries(["first", "second"].flatMap((side, at) => FLAGS.map((flag, bit) => [`${side}:${flag}`, 1 << (bit + at * FLAGS.length)])));

// Whose the first and the second verdict are: short, and with the folder that it comes from.
const SIDES = ["first", "second"];
const labels = { first: browser.dataset.first, second: browser.dataset.second };
const recorded = browser.dataset.recorded; // Meta's, or the record's
const whose = { first: browser.dataset.firstWhose, second: browser.dataset.secondWhose };

let index;
let total = 0;

async function unpack(element) {
  const packed = element.textContent;
  let bytes;
  if (Uint8Array.fromBase64) {
    bytes = Uint8Array.fromBase64(packed);
  } else {
    const binary = atob(packed);
    bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function loaded(at) {
  // The next one must be there too: an element may be in the page before all of its text is.
  while (document.readyState === "loading" && !elements[at + 1]) await new Promise((go) => setTimeout(go, 50));
  return elements[at];
}

function chunk(at) {
  if (!cache.has(at)) {
    if (cache.size >= KEPT) cache.delete(cache.keys().next().value);
    cache.set(at, loaded(at).then(unpack));
  }
  const found = cache.get(at);
  cache.delete(at);
  cache.set(at, found); // the newest is the last
  return found;
}

function chunkOf(sample) {
  let low = 0;
  let high = index.starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (index.starts[middle] <= sample) low = middle;
    else high = middle - 1;
  }
  return low;
}

async function texts(sample) {
  const at = chunkOf(sample);
  return (await chunk(at))[sample - index.starts[at]];
}

// The whole texts of many samples, chunk by chunk and without keeping any; the page stays alive between two chunks.
async function* whole(samples) {
  for (let at = 0; at < samples.length; ) {
    const here = chunkOf(samples[at]);
    const all = await unpack(await loaded(here));
    for (; at < samples.length && chunkOf(samples[at]) === here; at++) {
      yield [samples[at], all[samples[at] - index.starts[here]], at];
    }
    await new Promise((go) => setTimeout(go));
  }
}

const taskOf = (sample) => index.tasks[index.task[sample]];
const subtaskOf = (sample) => (index.subtask[sample] < 0 ? "" : index.subtasks[index.subtask[sample]]);

function word(verdict) {
  if (verdict === null) return "none";
  return verdict === 1 ? "right" : verdict === 0 ? "wrong" : "partly";
}

function verdict(value, flipped, tag = "span", attributes = {}) {
  const kind = word(value);
  const text = kind === "partly" ? value.toFixed(2) : kind === "none" ? "-" : kind;
  return make(tag, { ...attributes, class: `${kind}${flipped ? " flip" : ""}` }, text);
}

function flip(sample) {
  const [first, second] = [index.first[sample], index.second[sample]];
  if (second === null || Math.abs(first - second) <= 0.001) return "";
  return first > second ? "first only" : "second only";
}
