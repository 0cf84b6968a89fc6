// Which simulations the list shows and in which order: all of it stands in the address.

/** Return a function that says whether a simulation is shown; `without` names a filter that is left out of account. */
function filterOf(query, without = null) {
  const tests = [];
  const chosen = (name) => (name === without ? [] : query.getAll(name));
  const oneOf = (values, of) => values.length && tests.push((simulation) => values.includes(of(simulation)));
  oneOf(chosen("outcome"), stateName);
  for (const name of new Set(query.keys())) {
    if (!name.startsWith("axis.")) continue;
    const axis = name.slice(5);
    oneOf(chosen(name).map(sameCase), (simulation) => sameCase(simulation.condition.axes[axis]));
  }
  if (query.get("failed")) tests.push((simulation) => simulation.failed > 0);
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length) {
    tests.push((simulation) => {
      const text = `${simulation.id} ${simulation.seed} ${outcomeOf(simulation).label} ${simulation.diagnosis ?? ""} `
        + `${simulation.condition.label}`;
      return words.every((word) => text.toLowerCase().includes(word));
    });
  }
  return (simulation) => tests.every((test) => test(simulation));
}

/** Return under which name of an outcome a simulation is counted. */
function stateName(simulation) {
  if (simulation.damaged) return "(damaged)";
  return simulation.outcome ?? "(none)";
}

/** Return a value of an axis as text; Python's True and JSON's true are the same. */
function sameCase(value) {
  return String(value ?? "").toLowerCase();
}

/** Return the columns of the list: what varies, and how each game went. */
function listColumns() {
  const axes = index.axes.filter((axis) => axis.values.length > 1 && axis.name !== "repeat"); // which has a column as a number
  const ofAxes = axes.length > 5
    ? [{ key: "condition", label: "Condition", of: (one) => one.condition.label, ofCondition: true, width: "minmax(8rem,2.4fr)" }]
    : axes.map((axis) => ({
        key: `axis.${axis.name}`,
        label: axis.label,
        of: (one) => one.condition.axes[axis.name],
        ofCondition: true,
        width: longest(axis) < 6 ? "4rem" : `minmax(4rem,${Math.min(2, longest(axis) / 10)}fr)`,
      }));
  const widest = Math.min(15, 2 + 0.52 * Math.max(8, ...index.outcomes.map((outcome) => outcome.label.length)));
  const numeric = (key, label, width) => ({ key, label, of: (one) => one[key], width, numeric: true });
  return [
    { key: "outcome", label: "Outcome", of: (one) => outcomeOf(one).label, width: `minmax(${widest}rem,1.2fr)` },
    ...ofAxes,
    numeric("seed", "Seed", "3.6rem"),
    ...(index.simulations.some((one) => one.repeat) ? [numeric("repeat", "Repeat", "3.8rem")] : []),
    numeric("rounds", "Rounds", "4rem"),
    numeric("replies", "Replies", "4.2rem"),
    numeric("failed", "Failed", "3.8rem"),
    ...(index.simulations.some((one) => one.diagnosis || one.damaged)
      ? [{ key: "diagnosis", label: "Diagnosis", of: (one) => one.damaged ?? (one.diagnosis && spaced(one.diagnosis)), width: "minmax(6rem,1.8fr)" }]
      : []),
    { key: "id", label: "Id", of: (one) => one.short, width: "5.2rem" },
  ];
}

function longest(axis) {
  return Math.max(axis.label.length, ...axis.values.map((value) => String(value).length));
}

/** Return the simulations that a query shows, in its order. */
function chosenSimulations(query) {
  const chosen = index.simulations.filter(filterOf(query));
  const sort = query.get("sort") ?? "";
  const column = listColumns().find((one) => one.key === sort.replace(/^-/, ""));
  if (!column) return chosen;
  const sign = sort.startsWith("-") ? -1 : 1;
  return chosen.sort((one, other) => sign * compared(column.of(one), column.of(other)) || one.at - other.at);
}

/** Compare two values: numbers by size, others as text, what is missing last. */
function compared(one, other) {
  const missing = (value) => value === null || value === undefined || value === "";
  if (missing(one) || missing(other)) return missing(one) - missing(other);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

/** Return the controls above the list. */
function filterBar(query) {
  const setOne = (name, value) => goTo(changed(query, { [name]: value }));
  const setOutcomes = (names) => goTo(new URLSearchParams([...changed(query, { outcome: null }), ...names.map((name) => ["outcome", name])]));
  const search = h("input", { type: "search", id: "search", placeholder: "seed, id, words", value: query.get("q") ?? "",
    oninput: (event) => setOne("q", event.target.value) });
  const axes = index.axes.filter((axis) => axis.values.length > 1).map((axis) => {
    const name = `axis.${axis.name}`;
    const now = axis.values.map(String).find((value) => query.getAll(name).some((one) => sameCase(one) === sameCase(value)));
    const options = [["", "all"], ...axis.values.map((value) => [String(value), String(value ?? "none")])];
    return h("label", null, h("span", null, shown(axis.label)),
      select({ id: `filter-${axis.name}`, onchange: (event) => setOne(name, event.target.value) }, options, now ?? ""));
  });
  const onlyFailed = h("input", { type: "checkbox", id: "failed", checked: query.has("failed"),
    onchange: (event) => setOne("failed", event.target.checked ? "1" : "") });
  const clear = [...query.keys()].some((key) => key !== "sort")
    && h("button", { type: "button", class: "quiet", id: "clear", onclick: () => goTo(kept(query)) }, "Clear all");
  return h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    outcomeChips(query, setOutcomes),
    h("div", { class: "fields" }, h("label", null, h("span", null, "Search"), search), axes,
      h("label", { class: "check" }, onlyFailed, h("span", null, "with failed replies")), clear));
}

function kept(query) {
  return new URLSearchParams([...query].filter(([key]) => key === "sort"));
}

/** Return what a map by outcomes holds, in the order in which the game names them. */
function outcomeOrder(byName) {
  const order = [...index.outcomes.map((outcome) => outcome.name), "(none)", "(damaged)"];
  return [...new Set([...order, ...byName.keys()])].filter((name) => byName.has(name)).map((name) => byName.get(name));
}

/** Return a button for each outcome, with the number of games that the other filters leave. */
function outcomeChips(query, setOutcomes) {
  const counts = new Map();
  const passes = filterOf(query, "outcome");
  for (const one of index.simulations) {
    const name = stateName(one);
    if (!counts.has(name)) counts.set(name, { ...outcomeOf(one), name, many: 0 });
    if (passes(one)) counts.get(name).many += 1;
  }
  const on = query.getAll("outcome");
  return h("div", { class: "chips", role: "group", "aria-label": "Outcomes" }, outcomeOrder(counts).map(({ name, label, color, many }) => {
    const toggle = () => setOutcomes(on.includes(name) ? on.filter((other) => other !== name) : [...on, name]);
    return h("button", { type: "button", class: "chip", id: `outcome-${name}`, "aria-pressed": String(on.includes(name)), onclick: toggle },
      pill(label, color), h("b", null, number(many)));
  }));
}
