// What changed from one text to another: lines first, then the words of lines that changed.

const MOST_CHANGES = 1500; // beyond it all of both texts is shown as changed: the search grows with its square

/**
 * Return the shortest way from list `a` to list `b` as runs [kind, items]: "same", "out" (only in a), "in" (only in b).
 * Myers, "An O(ND) difference algorithm and its variations", 1986.
 */
function runs(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const middle = steps(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return joined([["same", a.slice(0, start)], ...middle, ["same", a.slice(a.length - end)]]);
}

/** Return the steps from `a` to `b`, one item each, or both lists as a whole where too much changed. */
function steps(a, b) {
  const whole = [["out", a], ["in", b]];
  if (!a.length || !b.length) return whole;
  const trace = [];
  let reach = new Map([[1, 0]]); // diagonal -> how far into a
  for (let changes = 0; changes <= Math.min(a.length + b.length, MOST_CHANGES); changes += 1) {
    trace.push(new Map(reach));
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = down(reach, diagonal, changes) ? reach.get(diagonal + 1) : reach.get(diagonal - 1) + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x += 1;
      reach.set(diagonal, x);
      if (x >= a.length && x - diagonal >= b.length) return back(a, b, trace);
    }
  }
  return whole;
}

function down(reach, diagonal, changes) {
  return diagonal === -changes || (diagonal !== changes && reach.get(diagonal - 1) < reach.get(diagonal + 1));
}

/** Walk back through what was reached after each change. */
function back(a, b, trace) {
  const found = [];
  let [x, y] = [a.length, b.length];
  for (let changes = trace.length - 1; changes >= 0; changes -= 1) {
    const before = down(trace[changes], x - y, changes) ? x - y + 1 : x - y - 1;
    const fromX = trace[changes].get(before);
    const fromY = fromX - before;
    for (; x > fromX && y > fromY; x -= 1, y -= 1) found.push(["same", [a[x - 1]]]);
    if (changes > 0) found.push(x === fromX ? ["in", [b[fromY]]] : ["out", [a[fromX]]]);
    [x, y] = [fromX, fromY];
  }
  return found.reverse();
}

/** Join neighbors of one kind. */
function joined(all) {
  const list = [];
  for (const [kind, items] of all) {
    if (!items.length) continue;
    if (list.at(-1)?.[0] === kind) list.at(-1)[1].push(...items);
    else list.push([kind, [...items]]);
  }
  return list;
}

const WORDS = /\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu;

/** Return the changes from text `a` to text `b` as runs [kind, text]. */
function wordDiff(a, b) {
  const lines = (text) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const all = runs(lines(a), lines(b)).map(([kind, items]) => [kind, items.join("")]);
  const found = [];
  for (let at = 0; at < all.length; at += 1) {
    const [kind, text] = all[at];
    const next = all[at + 1];
    if (kind !== "same" && next && next[0] !== "same") {
      const [out, into] = kind === "out" ? [text, next[1]] : [next[1], text];
      found.push(...readable(runs(out.match(WORDS) ?? [], into.match(WORDS) ?? []).map(([one, items]) => [one, items.join("")])));
      at += 1;
    } else {
      found.push([kind, text]);
    }
  }
  return found;
}

/** Join changes between which less stays the same than changes: words that happen to recur are no help to a reader. */
function readable(all) {
  const found = [];
  let [out, into, size] = ["", "", 0]; // the change that is being joined, and the size of its longest part so far
  const flush = () => {
    found.push(...[["out", out], ["in", into]].filter(([, text]) => text));
    [out, into, size] = ["", "", 0];
  };
  all.forEach(([kind, text], at) => {
    const changes = [all[at + 1], all[at + 2]].filter((next) => next && next[0] !== "same").map((next) => next[1].length);
    if (kind === "out") out += text;
    else if (kind === "in") into += text;
    else if (size && changes.length && text.length <= size && text.length <= Math.max(...changes)) [out, into] = [out + text, into + text];
    else {
      flush();
      found.push([kind, text]);
    }
    if (kind !== "same") size = Math.max(size, text.length);
  });
  flush();
  return found;
}

const AROUND = 2; // unchanged lines shown before and after a change

/** Return a block that shows the changes from `a` to `b`; long parts that stay the same are folded. */
function diffBlock(a, b) {
  if (a === b) return note("calm", "The same text.");
  const block = h("pre", { class: "diff", dir: "auto" });
  const all = wordDiff(a, b);
  all.forEach(([kind, text], at) => {
    if (kind === "same") block.append(...foldedSame(text, at === 0, at === all.length - 1));
    else block.append(h(kind === "in" ? "ins" : "del", null, shown(text)));
  });
  return block;
}

function foldedSame(text, first, last) {
  const lines = text.split("\n");
  const head = first ? 0 : AROUND;
  const tail = last ? 0 : AROUND;
  const hidden = lines.length - head - tail - 1;
  if (hidden < 4) return shown(text);
  const middle = lines.slice(head, lines.length - 1 - tail).join("\n");
  return [
    ...shown(lines.slice(0, head).map((line) => `${line}\n`).join("")),
    h("details", null, h("summary", null, `${hidden} lines are the same`), shown(middle)),
    ...shown(lines.slice(lines.length - 1 - tail).join("\n")),
  ];
}
