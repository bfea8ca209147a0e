// The difference of two texts, word by word.
//
// Myers' greedy algorithm (An O(ND) difference algorithm, 1986) finds the fewest words to take away and to put in. Its
// work grows with the square of that number, so it is given up at STEPS of them: what it has got furthest with is kept,
// and it begins again from there. The result is always a true difference; of texts with little in common it may not be
// the shortest one. The work is bounded by the length of the texts times STEPS.
const WORD = /<\|[\w-]{1,64}\|>|\s+|[\p{L}\p{N}\p{M}_]+|./gsu;
const STEPS = 600;

// Both texts as lists of [text, whether the other has it too].
function difference(left, right) {
  const [a, b] = [left.match(WORD) ?? [], right.match(WORD) ?? []];
  const same = [new Uint8Array(a.length), new Uint8Array(b.length)];
  let [x, y] = [0, 0];
  let [endX, endY] = [a.length, b.length];
  while (endX > x && endY > y && a[endX - 1] === b[endY - 1]) same[0][--endX] = same[1][--endY] = 1;
  while (x < endX && y < endY) [x, y] = stretch(a, b, x, y, endX, endY, same);
  smooth(a, same);
  return [joined(a, same[0]), joined(b, same[1])];
}

// One run of the algorithm from (fromX, fromY): marks what both have, and returns how far it came.
function stretch(a, b, fromX, fromY, endX, endY, same) {
  const [width, height] = [endX - fromX, endY - fromY];
  const most = Math.min(STEPS, width + height);
  const reach = new Int32Array(2 * most + 3); // by diagonal x - y, moved by most + 1
  const history = []; // the reach before each step, of the diagonals that it had
  const middle = most + 1;
  let best = [0, 0, 0]; // steps, diagonal, x
  search: for (let steps = 0; steps <= most; steps++) {
    history.push(reach.slice(middle - steps - 1, middle + steps + 2));
    for (let diagonal = -steps; diagonal <= steps; diagonal += 2) {
      const down = diagonal === -steps || (diagonal !== steps && reach[middle + diagonal - 1] < reach[middle + diagonal + 1]);
      let x = down ? reach[middle + diagonal + 1] : reach[middle + diagonal - 1] + 1;
      let y = x - diagonal;
      if (x > width || y > height) {
        reach[middle + diagonal] = x; // outside, as is all that comes of it
        continue;
      }
      while (x < width && y < height && a[fromX + x] === b[fromY + y]) {
        x++;
        y++;
      }
      reach[middle + diagonal] = x;
      if (2 * x - diagonal > 2 * best[2] - best[1]) best = [steps, diagonal, x];
      if (x === width && y === height) break search;
    }
  }
  let [steps, diagonal, x] = best; // one step at least leads on, so that this comes to an end
  const stop = [fromX + x, fromY + x - diagonal];
  for (; steps >= 0; steps--) {
    const before = history[steps];
    const at = (other) => before[other + steps + 1];
    const down = steps > 0 && (diagonal === -steps || (diagonal !== steps && at(diagonal - 1) < at(diagonal + 1)));
    const previous = down ? diagonal + 1 : diagonal - 1;
    const begin = steps === 0 ? 0 : down ? at(previous) : at(previous) + 1;
    while (x > begin) {
      x--;
      same[0][fromX + x] = same[1][fromY + x - diagonal] = 1;
    }
    if (steps === 0) break;
    x = at(previous);
    diagonal = previous;
  }
  return stop;
}

// A space that both have between two changed words is not worth an island of its own.
function smooth(words, same) {
  const alone = ([list, at]) => list[at - 1] === 0 && list[at + 1] === 0;
  for (let x = 0, y = 0; x < words.length; x++) {
    if (!same[0][x]) continue;
    while (!same[1][y]) y++; // the nth that is the same here is the nth there
    if (/^\s+$/.test(words[x]) && alone([same[0], x]) && alone([same[1], y])) same[0][x] = same[1][y] = 0;
    y++;
  }
}

function joined(words, same) {
  const runs = [];
  for (let from = 0; from < words.length; ) {
    let to = from + 1;
    while (to < words.length && same[to] === same[from]) to++;
    runs.push([words.slice(from, to).join(""), same[from] === 1]);
    from = to;
  }
  return runs;
}

function marked(runs, side) {
  return runs.map(([text, same]) => (same ? visible(text) : make("mark", { class: side }, visible(text))));
}
