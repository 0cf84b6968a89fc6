// The list of all simulations: grouped by condition, with rows only for what is in sight.

const opened = new Map(); // condition -> whether its rows were opened or folded by hand
let lastChosen = null; // the simulations that the list showed last: n and p walk through them
let lastGame = null; // the id of the game that was read last: the keys of the list begin there
const scrolled = new Map(); // address -> how far down the reader was

/** Return the page of the list. */
function listPage(query) {
  const page = h("div", { class: "page list-page" });
  let table = null;
  const change = (next) => {
    history.replaceState(null, "", link([], next));
    draw(next);
  };
  const draw = (now, active = null) => {
    const focused = document.activeElement?.id;
    const caret = document.activeElement?.selectionStart;
    const chosen = chosenSimulations(now);
    lastChosen = chosen;
    table?.end();
    table = listTable(chosen, now, change, active);
    page.replaceChildren(...intro(), filterBar(now, change), summary(chosen, now, change), table.node);
    table.show();
    const again = focused ? document.getElementById(focused) : null;
    again?.focus({ preventScroll: true });
    if (again?.type === "search") again.setSelectionRange(caret, caret);
    announce(`${counted(chosen.length, "simulation")} of ${number(index.simulations.length)}`);
  };
  page.start = () => draw(query);
  page.refresh = () => draw(route().query, table.active());
  page.end = () => table?.end();
  page.arrow = () => table.enter();
  return page;
}

function intro() {
  return [
    h("h1", { class: "sr" }, "Simulations"),
    index.left_out && note("warn", shown(index.left_out)),
    index.unfinished > 0 && note("calm", `${counted(index.unfinished, "simulation")} ${index.unfinished === 1 ? "has" : "have"} not ended yet.`),
    index.imported && note("calm", "These games were played elsewhere and imported: what was not recorded is missing here too."),
  ].filter(Boolean);
}

function summary(chosen, query, change) {
  const sorted = query.has("sort");
  const folded = isFolded(query);
  const turn = (changes) => () => {
    opened.clear();
    change(changed(query, changes));
  };
  return h("div", { class: "bar" },
    h("p", null, h("b", null, number(chosen.length)), ` of ${counted(index.simulations.length, "simulation")}`),
    h("span", { class: "grow" }),
    sorted && h("button", { type: "button", class: "quiet", id: "unsort", onclick: turn({ sort: null }) }, "Group by condition"),
    !sorted && index.conditions.length > 1
      && h("button", { type: "button", class: "quiet", id: "fold", onclick: turn({ fold: folded ? "0" : "1" }) }, folded ? "Unfold all" : "Fold all"),
    index.conditions.length > 1 && h("a", { href: link(["pairs"]), class: "button quiet" }, "Compare two conditions"));
}

function isNarrow() {
  return matchMedia("(max-width: 700px)").matches;
}

/** Return whether conditions are folded until the reader opens them: where room is short, unless simulations were chosen. */
function isFolded(query) {
  return query.has("fold") ? query.get("fold") !== "0" : isNarrow() && query.size === kept(query).size;
}

/** Return the rows of the list: simulations, with a row before each condition unless they are sorted otherwise. */
function rowsOf(chosen, query) {
  if (query.has("sort") || index.conditions.length < 2) return chosen;
  const rows = [];
  for (const [condition, members] of Map.groupBy(chosen, (simulation) => simulation.condition)) {
    const open = opened.get(condition.id) ?? !isFolded(query);
    rows.push({ group: condition, members, open });
    if (open) rows.push(...members);
  }
  return rows;
}

/** Return the table: {node, show, end, enter, active}. Rows exist only where the window is. `active` is a row, or null for that of the last game. */
function listTable(chosen, query, change, active) {
  const narrow = isNarrow();
  const height = narrow ? 54 : 30; // pixels, as in page.css
  const columns = listColumns();
  const letters = Math.max(...index.conditions.map((condition) => condition.label.length));
  let rows = rowsOf(chosen, query);
  active ??= Math.max(0, rows.findIndex((row) => row.id === lastGame));
  const there = new Map();
  const body = h("div", { class: "rows", role: "rowgroup" });
  const head = h("div", { class: "row head", role: "row", "aria-rowindex": 1 }, columns.map((column) => headCell(column, query, change)));
  const node = h("div", { class: "table", role: "grid", tabindex: 0, id: "list", "aria-label": "Simulations",
    "aria-colcount": columns.length, style: { "--columns": columns.map((column) => column.width).join(" "), "--label": `${Math.min(90, 4 + letters)}ch` },
    onkeydown: walk, onfocus: () => activate(active) }, h("div", { role: "rowgroup", class: "heads" }, head), body);
  if (!rows.length) return { node: emptyList(query, change), show() {}, end() {}, enter() {}, active: () => 0 };

  function size() {
    node.setAttribute("aria-rowcount", rows.length + 1);
    body.style.height = `${rows.length * height}px`;
  }
  function draw(all = false) {
    const top = body.getBoundingClientRect().top;
    const first = all ? 0 : Math.max(0, Math.floor(-top / height) - 10);
    const last = all ? Math.min(rows.length, 2000) : Math.min(rows.length, Math.ceil((innerHeight - top) / height) + 10);
    for (const [at, row] of there) if (at < first || at >= last) { row.remove(); there.delete(at); }
    for (let at = first; at < last; at += 1) {
      if (there.has(at)) continue;
      const row = rows[at].group ? groupRow(rows[at], columns.length, toggle) : gameRow(rows[at], columns, narrow, rows !== chosen);
      row.id = `row-${at}`;
      row.setAttribute("aria-rowindex", at + 2);
      row.style.top = `${at * height}px`;
      row.classList.toggle("active", at === active && document.activeElement === node);
      there.set(at, row);
      body.append(row);
    }
  }
  function again() {
    for (const row of there.values()) row.remove();
    there.clear();
    size();
    draw();
  }
  function toggle(row) {
    opened.set(row.group.id, !row.open);
    rows = rowsOf(chosen, query);
    again();
  }
  function activate(at) {
    there.get(active)?.classList.remove("active");
    active = Math.max(0, Math.min(rows.length - 1, at));
    const top = body.getBoundingClientRect().top + active * height;
    const under = head.offsetHeight + 4;
    if (top < under) scrollBy(0, top - under);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight + 4);
    draw();
    there.get(active)?.classList.add("active");
    node.setAttribute("aria-activedescendant", `row-${active}`);
  }
  /** Give the keys to the list: at the active row, or where that is out of sight at the first in sight. */
  function enter() {
    const top = body.getBoundingClientRect().top;
    const seen = top + active * height;
    if (seen < 0 || seen > innerHeight) active = Math.min(rows.length - 1, Math.max(0, Math.ceil((head.offsetHeight - top) / height)));
    node.focus({ preventScroll: true });
  }
  function walk(event) {
    if (event.target !== node || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.floor(innerHeight / height) - 3;
    const moves = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 };
    if (event.key in moves) activate(moves[event.key]);
    else if (["Enter", "ArrowLeft", "ArrowRight"].includes(event.key) && rows[active].group) { toggle(rows[active]); activate(active); }
    else if (event.key === "Enter") location.hash = link(["game", rows[active].short]);
    else return;
    event.preventDefault();
  }
  const listening = new AbortController();
  const { signal } = listening;
  for (const name of ["scroll", "resize"]) addEventListener(name, () => draw(), { passive: true, signal });
  addEventListener("beforeprint", () => draw(true), { signal });
  matchMedia("(max-width: 700px)").addEventListener("change", () => change(query), { signal });
  const at = location.hash;
  return {
    node,
    enter,
    active: () => active,
    show() {
      size();
      scrollTo(0, scrolled.get(at) ?? scrollY);
      draw();
    },
    end() {
      scrolled.set(at, scrollY);
      listening.abort();
    },
  };
}

function headCell(column, query, change) {
  const sort = query.get("sort") ?? "";
  const way = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : "none";
  const next = way === "ascending" ? `-${column.key}` : column.key;
  const click = () => change(changed(query, { sort: next }));
  return h("span", { role: "columnheader", "aria-sort": way, class: column.numeric && "right" },
    h("button", { type: "button", id: `sort-${column.key}`, onclick: click }, shown(column.label),
      h("i", { "aria-hidden": "true" }, { ascending: " ↑", descending: " ↓", none: "" }[way])));
}

function gameRow(simulation, columns, narrow, inGroup) {
  const outcome = outcomeOf(simulation);
  const open = h("a", { href: link(["game", simulation.short]), tabindex: -1, class: "open" }, pill(outcome.label, outcome.color));
  if (narrow) {
    const facts = `seed ${simulation.seed} · ${simulation.rounds ?? "–"} rounds${simulation.failed ? ` · ${simulation.failed} failed` : ""}`;
    return h("div", { class: "row game", role: "row" },
      h("span", { role: "gridcell" }, open, h("small", null, facts)),
      h("span", { role: "gridcell", class: "soft" }, shown([inGroup ? null : simulation.condition.label, simulation.damaged ?? spaced(simulation.diagnosis ?? "")].filter(Boolean).join(" — "))));
  }
  return h("div", { class: `row game${simulation.damaged ? " damaged" : ""}`, role: "row" }, columns.map((column) => {
    if (column.key === "outcome") return h("span", { role: "gridcell" }, open);
    const value = column.of(simulation);
    const text = column.numeric && column.key !== "seed" ? number(value) : String(value ?? "–");
    const warn = column.key === "failed" && value > 0 ? " warned" : "";
    return h("span", { role: "gridcell", class: `${column.numeric ? "right" : ""}${warn}`, title: text.length > 12 ? plain(text) : null }, shown(text));
  }));
}

function groupRow(row, columns, toggle) {
  const { group, members, open } = row;
  const counts = outcomeOrder(Map.groupBy(members, stateName)).map((ones) => ({ ...outcomeOf(ones[0]), many: ones.length }));
  const words = counts.map((one) => `${one.many} ${one.label}`).join(", ");
  return h("div", { class: "row group", role: "row" },
    h("span", { role: "gridcell", "aria-colspan": columns },
      h("button", { type: "button", tabindex: -1, "aria-expanded": String(open), title: plain(group.label), onclick: () => toggle(row) },
        h("i", { "aria-hidden": "true" }, open ? "▾ " : "▸ "), shown(group.label)),
      h("b", null, number(members.length)), bar(counts, members.length), h("small", { title: plain(words) }, shown(words))));
}

/** Return a small bar of counts, for the eye alone: the words beside it say the same. */
function bar(counts, total) {
  return h("span", { class: "counts", "aria-hidden": "true" }, counts.map((one) => h("span", {
    style: { "--c": safeColor(one.color), flex: String(one.many / total) } })));
}

function emptyList(query, change) {
  return h("div", { class: "empty" }, index.simulations.length
    ? [h("p", null, "No simulation fits these filters."), h("button", { type: "button", onclick: () => change(kept(query)) }, "Show all of them")]
    : h("p", null, index.served && index.unfinished > 0 ? "Nothing was said yet. This page looks again every 10 seconds." : "This study has no simulations to show."));
}
