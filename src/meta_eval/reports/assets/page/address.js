// The address holds the whole state, so that a link leads back to it, and the browser's back button too:
// #task=meta_ifeval&only=first+only&sample=meta_ifeval/12. What is as at the beginning is left out.
const EMPTY = {
  task: "", subtask: "", first: "", second: "", // filters
  only: "", // chips, with commas between them
  length: "", // first_characters:200-249
  q: "", deep: "", // search words; in whole texts too
  sort: "", // a column, with a minus before it to sort downwards
  sample: "", // task/doc id of the one that is open; in a link the beginning of its question hash does as well
  beside: "", // which two answers stand side by side
  view: "", // lengths: their distributions are shown
};
const state = { ...EMPTY };

function encoded(text) {
  const whole = text.replace(/\p{Cs}/gu, "\ufffd"); // half a pair has no place in an address
  return encodeURIComponent(whole).replace(/%2F/g, "/").replace(/%20/g, "+").replace(/%2C/g, ",").replace(/%3A/g, ":");
}

function hashOf(given) {
  const parts = Object.keys(EMPTY).filter((name) => given[name]).map((name) => `${name}=${encoded(given[name])}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

const link = (given) => location.href.split("#")[0] + hashOf({ ...EMPTY, ...given });

// The state of an address; null where it is the place of something in the page, or nothing.
function stateOf(hash) {
  if (!hash.includes("=")) return null;
  const given = new URLSearchParams(hash.slice(1));
  return Object.fromEntries(Object.keys(EMPTY).map((name) => [name, given.get(name) ?? ""]));
}

// Write the state into the address: as a step that the back button takes back, or in place of the latest one.
function remember(step) {
  const hash = hashOf(state);
  if (hash === location.hash) return;
  try {
    const url = hash || location.href.split("#")[0];
    if (step) history.pushState({ seen: true }, "", url);
    else history.replaceState({ seen: true }, "", url);
  } catch {
    // A page within another one may not; then there is no address to copy either.
  }
}

function change(changes, { step = true } = {}) {
  Object.assign(state, { q: search.value }, changes); // what was typed counts, though its own change may still wait
  remember(step);
  return apply();
}

// An address that somebody came with, or went back to. Who followed a link is taken to the samples; who went back is
// where the browser puts them.
async function arrive() {
  const given = stateOf(location.hash);
  if (!given && location.hash) return;
  const isNew = !history.state?.seen;
  Object.assign(state, given ?? EMPTY);
  if (isNew && given) {
    try {
      history.replaceState({ seen: true }, "");
    } catch {
      // as above
    }
    $("samples").scrollIntoView();
    if (!state.sample) grid.focus({ preventScroll: true });
  }
  await apply();
}

// ---- Copying.
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without the permission the old way is left.
    const area = make("textarea", { "aria-hidden": "true", class: "hidden" });
    area.value = text;
    document.body.append(area);
    const before = document.activeElement;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus({ preventScroll: true });
    if (!done) return say(`The browser does not let this page copy the ${what}.`);
  }
  return say(`Copied the ${what}.`);
}

let silence;
function say(text) {
  $("said").textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => ($("said").textContent = ""), 6000);
}
