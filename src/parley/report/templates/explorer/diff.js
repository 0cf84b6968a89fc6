// What changed from one text to another: lines first, then the words of lines that changed.

const MOST_PAIRS = 10_000_000; // of what is compared; beyond it all of both texts is shown as changed

/** Return the way from list `a` to list `b` that keeps most, as runs [kind, items]: "same", "out" (only in a), "in" (only in b). */
function runs(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const middle = steps(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return joined([["same", a.slice(0, start)], ...middle, ["same", a.slice(a.length - end)]]);
}

/** Return the steps from `a` to `b`, one item each, along their longest common subsequence. */
function steps(a, b) {
  if (a.length * b.length > MOST_PAIRS) return [["out", a], ["in", b]];
  const width = b.length + 1;
  const kept = new Uint32Array((a.length + 1) * width); // at x, y: how much the rests of a from x and b from y share
  for (let x = a.length - 1; x >= 0; x -= 1) {
    for (let y = b.length - 1; y >= 0; y -= 1) {
      const at = x * width + y;
      kept[at] = a[x] === b[y] ? kept[at + width + 1] + 1 : Math.max(kept[at + width], kept[at + 1]);
    }
  }
  const found = [];
  for (let x = 0, y = 0; x < a.length || y < b.length;) {
    const at = x * width + y;
    if (x < a.length && y < b.length && a[x] === b[y]) {
      found.push(["same", [a[x++]]]);
      y += 1;
    } else if (y === b.length || (x < a.length && kept[at + width] >= kept[at + 1])) found.push(["out", [a[x++]]]);
    else found.push(["in", [b[y++]]]);
  }
  return found;
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
      found.push(...runs(out.match(WORDS) ?? [], into.match(WORDS) ?? []).map(([one, items]) => [one, items.join("")]));
      at += 1;
    } else {
      found.push([kind, text]);
    }
  }
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
