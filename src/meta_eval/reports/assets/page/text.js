// Foreign text: special tokens stand out; what hides or reorders text is shown by its number.
const SPECIAL = /<\|[\w-]{1,64}\|>|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;
const SHOWN = 20000; // characters of either end of a text that are laid out at once: one line of millions would stop the browser

function codepoint(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function visible(text) {
  const fragment = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(SPECIAL)) {
    if (match.index > from) fragment.append(text.slice(from, match.index));
    const token = match[0].startsWith("<|");
    fragment.append(make("span", { class: token ? "token" : "alien" }, token ? match[0] : codepoint(match[0])));
    from = match.index + match[0].length;
  }
  fragment.append(text.slice(from));
  return fragment;
}

function plain(text) {
  return text.replace(SPECIAL, (found) => (found.startsWith("<|") ? found : `⟨${codepoint(found)}⟩`));
}

// Characters as people and Python count them, not halves of pairs.
function characters(text) {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
}

const isLong = (text) => text.length > 2 * SHOWN;

// A long text is shown by its two ends, and whole when asked for.
function fill(element, text) {
  if (!isLong(text)) {
    element.replaceChildren(visible(text));
    return;
  }
  const left = text.length - 2 * SHOWN;
  const more = button(`show the ${number.format(left)} characters between`, () => element.replaceChildren(visible(text)), { class: "more" });
  element.replaceChildren(visible(text.slice(0, SHOWN)), more, visible(text.slice(-SHOWN)));
}
