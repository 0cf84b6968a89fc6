// The list of all simulations, grouped by condition: its filters and its order stand in the address.

const CHUNK = 100; // rows that are drawn at first, and again when the reader comes near the last of them
const drawn = new Map(); // address -> how many rows the reader came to
let lastChosen = null; // the simulations that the list showed last: a game leads to the next of them
let lastGame = null; // the id of the row of the game that was read last: there the list goes on

/** Return the page of the list. */
function listPage(query) {
  const chosen = chosenSimulations(query);
  lastChosen = chosen;
  const page = h("div", { class: "page list-page" }, intro(), filterBar(query), summary(chosen, query));
  if (chosen.length) fillTable(page, chosen, query);
  else page.append(emptyList(query));
  announce(`${counted(chosen.length, "simulation")} of ${number(index.simulations.length)}`);
  return page;
}

function intro() {
  return [
    h("h1", { class: "sr" }, "Simulations"),
    index.left_out && note("warn", shown(index.left_out)),
    index.unfinished > 0 && note("calm", `${counted(index.unfinished, "simulation")} ${index.unfinished === 1 ? "has" : "have"} not ended yet.`),
    index.imported && note("calm", "These games were played elsewhere and imported: what was not recorded is missing here too."),
  ];
}

function summary(chosen, query) {
  const sorted = query.has("sort");
  return h("div", { class: "bar" },
    h("p", null, h("b", null, number(chosen.length)), ` of ${counted(index.simulations.length, "simulation")}`),
    h("span", { class: "grow" }),
    sorted && h("button", { type: "button", class: "quiet", id: "unsort", onclick: () => goTo(changed(query, { sort: null })) }, "Group by condition"));
}

/** Return the rows of the list: simulations, with a row before each condition unless they are sorted otherwise. */
function rowsOf(chosen, query) {
  if (query.has("sort") || index.conditions.length < 2) return chosen;
  return [...Map.groupBy(chosen, (simulation) => simulation.condition)].flatMap(([group, members]) => [{ group, members }, ...members]);
}

/** Add the table to the page. Rows are drawn as the reader comes to them. */
function fillTable(page, chosen, query) {
  const rows = rowsOf(chosen, query);
  const columns = listColumns();
  const at = location.hash;
  const letters = Math.max(...index.conditions.map((condition) => condition.label.length));
  const body = h("div", { class: rows === chosen ? "rows" : "rows grouped", role: "rowgroup" });
  const head = h("div", { class: "row head", role: "row" }, columns.map((column) => headCell(column, query)));
  const more = (many) => {
    body.append(...rows.slice(body.childElementCount, many).map((row) => (row.group ? groupRow(row, columns.length) : gameRow(row, columns))));
    drawn.set(at, body.childElementCount);
  };
  more(Math.max(drawn.get(at) ?? CHUNK, rows.findIndex((row) => rowId(row) === lastGame) + CHUNK));
  page.scrolled = () => body.getBoundingClientRect().bottom < innerHeight + 3000 && more(body.childElementCount + CHUNK);
  page.all = () => more(2000); // for a printer: more would be a hundred pages
  page.append(h("div", { class: "table", role: "table", "aria-label": "Simulations", "aria-rowcount": rows.length + 1, "aria-colcount": columns.length,
    style: { "--columns": columns.map((column) => column.width).join(" "), "--label": `${Math.min(90, 4 + letters)}ch` } },
    h("div", { role: "rowgroup", class: "heads" }, head), body));
}

/** Return the id of the row of a simulation. */
function rowId(simulation) {
  return `row-${simulation.short}`;
}

function headCell(column, query) {
  const sort = query.get("sort") ?? "";
  const way = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : "none";
  const next = way === "ascending" ? `-${column.key}` : column.key;
  return h("span", { role: "columnheader", "aria-sort": way, class: column.numeric && "right" },
    h("button", { type: "button", id: `sort-${column.key}`, onclick: () => goTo(changed(query, { sort: next })) }, shown(column.label),
      h("i", { "aria-hidden": "true" }, { ascending: " ↑", descending: " ↓", none: "" }[way])));
}

function gameRow(simulation, columns) {
  const outcome = outcomeOf(simulation);
  return h("div", { class: `row game${simulation.damaged ? " damaged" : ""}`, role: "row" }, columns.map((column) => {
    if (column.key === "outcome") {
      return h("span", { role: "cell" }, h("a", { href: link(["game", simulation.short]), id: rowId(simulation), class: "open" }, pill(outcome.label, outcome.color)));
    }
    const value = column.of(simulation);
    const text = column.numeric && column.key !== "seed" ? number(value) : String(value ?? "–");
    const classes = [column.numeric && "right", column.ofCondition && "of-condition", (value ?? "") === "" && "none", column.key === "failed" && value > 0 && "warned"];
    return h("span", { role: "cell", "data-label": plain(column.label), class: classes.filter(Boolean).join(" ") || null, title: text.length > 12 ? plain(text) : null }, shown(text));
  }));
}

function groupRow({ group, members }, columns) {
  const counts = outcomeOrder(Map.groupBy(members, stateName)).map((ones) => ({ ...outcomeOf(ones[0]), many: ones.length }));
  const words = counts.map((one) => `${one.many} ${one.label}`).join(", ");
  return h("div", { class: "row group", role: "row" },
    h("span", { role: "cell", "aria-colspan": columns }, h("strong", { title: plain(group.label) }, shown(group.label)),
      h("b", null, number(members.length)), bar(counts, members.length), h("small", { title: plain(words) }, shown(words))));
}

/** Return a small bar of counts, for the eye alone: the words beside it say the same. */
function bar(counts, total) {
  return h("span", { class: "counts", "aria-hidden": "true" }, counts.map((one) => h("span", {
    style: { "--c": one.color, flex: String(one.many / total) } })));
}

function emptyList(query) {
  return h("div", { class: "empty" }, index.simulations.length
    ? [h("p", null, "No simulation fits these filters."), h("button", { type: "button", onclick: () => goTo(kept(query)) }, "Show all of them")]
    : h("p", null, "This study has no simulations to show."));
}
