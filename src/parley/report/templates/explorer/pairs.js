// The pairs of two conditions.

/** Return the conditions that a query names as a or b, by their number or by values of axes; none if it names nothing. */
function conditionsBy(query, name) {
  if (query.has(name)) return index.conditions.filter((condition) => condition.id === query.get(name));
  const axes = [...query].filter(([key]) => key.startsWith(`${name}.`)).map(([key, value]) => [key.slice(name.length + 1), sameCase(value)]);
  return axes.length ? index.conditions.filter((condition) => axes.every(([axis, value]) => sameCase(condition.axes[axis]) === value)) : [];
}

/** Return the page of the pairs of two conditions. What the address does not name clearly, the reader chooses. */
function pairsPage(query) {
  const named = (name) => [...query.keys()].some((key) => key === name || key.startsWith(`${name}.`));
  let unclear = null;
  const [a, b] = ["a", "b"].map((name) => {
    const fitting = conditionsBy(query, name);
    if (fitting.length !== 1 && named(name)) unclear ??= fitting.length ? `fits ${fitting.length} conditions as ${name.toUpperCase()}` : "names a condition that is not in this study";
    return fitting.length === 1 ? fitting[0] : null;
  });
  // What is looked at in A and in B: the same, but for questions that compare two outcomes.
  let by = [query.get("outcome") ?? "", query.get("outcome.b") ?? query.get("outcome") ?? ""];
  const kinds = by.map(kindOf);
  if (kinds.includes(null) || kinds[0] !== kinds[1]) {
    unclear ??= kinds.includes(null) ? "names an outcome that this game does not have" : "compares two things that are not alike";
    by = ["", ""];
  }
  const two = by[0] !== by[1];
  const all = query.get("all");
  const choose = (changes) => goTo(["pairs"], Object.entries({ a: a?.id, b: b?.id, outcome: by[0], "outcome.b": two ? by[1] : null, all, ...changes }));
  const conditions = index.conditions.map((condition) => [condition.id, condition.label]);
  const choice = (name, chosen) => h("label", null, h("span", null, name.toUpperCase()),
    select({ id: `pairs-${name}`, onchange: (event) => choose({ [name]: event.target.value }) }, [["", "choose …"], ...conditions], chosen?.id ?? ""));
  const known = [...index.outcomes, ...index.indicators, ...index.quantities].map((one) => [one.name, one.label]);
  const asked = by.map((name) => new Map(known).get(name) ?? name);
  const outcomes = [["", "any outcome"], ...known, ...(two ? [[TWO, `${asked[0]} in A, ${asked[1]} in B`]] : [])];
  return h("div", { class: "page pairs-page" }, h("h1", { tabindex: -1 }, "Pairs of two conditions"),
    h("p", { class: "soft" }, a && a === b ? "Each game beside itself, to compare two outcomes of it."
      : "Games of both conditions with the same seed started alike. Discordant pairs are those that ended differently: they are what a contrast is made of."),
    h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, h("div", { class: "fields" },
      choice("a", a), choice("b", b),
      h("label", null, h("span", null, "that differ in"),
        select({ id: "pairs-outcome", onchange: (event) => choose({ outcome: event.target.value, "outcome.b": null }) }, outcomes, two ? TWO : by[0])),
      h("label", { class: "check" }, h("input", { type: "checkbox", id: "pairs-all", checked: all !== null, onchange: (event) => choose({ all: event.target.checked ? 1 : null }) }),
        h("span", null, "also pairs that do not")))),
    unclear || !a || !b ? note("calm", unclear ? `The address ${unclear}. Choose one.` : "Choose two conditions.")
      : pairTable(pairList(a, b, by), all !== null, by, two ? asked : null));
}

const TWO = "(two)"; // stands for two names in the choice of what pairs differ in

/** Return a function that says what a game shows: for "" how it ended, for an outcome or an indicator whether it holds, or a
 * quantity; null where there is no answer. */
function valueOf(name) {
  const values = (indicatorOf(name) ?? quantityOf(name))?.values;
  return (simulation) => {
    if (simulation.damaged) return null;
    if (values) return values[simulation.at] ?? null;
    return name === "" ? stateName(simulation) : stateName(simulation) === name;
  };
}

/** Return whether a name stands for a number, a yes or no, or ("") for how a game ended; null if it is unknown. */
function kindOf(name) {
  if (name === "") return "ended";
  if (quantityOf(name)) return "number";
  return index.outcomeByName.has(name) || indicatorOf(name) ? "flag" : null;
}

/** Return the quantity of this name, a number of each simulation. */
function quantityOf(name) {
  return index.quantities.find((one) => one.name === name);
}

/** Return the pairs of two conditions, with what each game shows of what is looked at in A and in B; of numbers, what differs
 * most comes first. As in contrasts, a game without an answer makes no pair. A condition may be compared with itself. */
function pairList(a, b, by) {
  const [inA, ofB] = by.map(valueOf);
  const keyOf = (simulation) => `${simulation.pair} ${simulation.repeat}`;
  const inB = new Map(index.simulations.filter((one) => one.condition.id === b.id && one.pair !== null).map((one) => [keyOf(one), one]));
  const pairs = index.simulations.filter((one) => one.condition.id === a.id && inB.has(keyOf(one))).map((one) => {
    const other = inB.get(keyOf(one));
    const [left, right] = [inA(one), ofB(other)];
    return { one, other, left, right, differ: left !== right };
  }).filter(({ left, right }) => left !== null && right !== null);
  return quantityOf(by[0]) ? pairs.sort((one, two) => Math.abs(two.right - two.left) - Math.abs(one.right - one.left)) : pairs;
}

/** Return in which of both conditions the pairs that differ have what is asked for, or more of it. */
function whereMore(list, quantity) {
  const differ = list.filter((pair) => pair.differ);
  const count = (more) => number(differ.filter(more).length);
  if (quantity && differ.length) {
    const mean = list.reduce((sum, pair) => sum + pair.right - pair.left, 0) / list.length;
    // The values have six digits: what is smaller may be their rounding.
    const size = quantity.share ? Number((100 * Math.abs(mean)).toFixed(1)) : Number(Math.abs(mean).toPrecision(4));
    const nothing = size === 0 || Math.abs(mean) < 1e-5 * Math.max(...list.map((pair) => Math.abs(pair.left)));
    return `: ${count((pair) => pair.left > pair.right)} higher in A, ${count((pair) => pair.right > pair.left)} higher in B. `
      + (nothing ? "On average they are alike." : `Over all pairs B is ${size}${quantity.share ? " points" : ""} ${mean < 0 ? "lower" : "higher"} on average.`);
  }
  if (!differ.some((pair) => pair.left === true || pair.right === true)) return ".";
  return `: ${count((pair) => pair.left === true)} only in A, ${count((pair) => pair.right === true)} only in B.`;
}

/** Return a quantity as text, a share in percent. */
function amount(value, quantity) {
  return quantity.share ? `${Number((100 * value).toPrecision(3))}%` : String(Number(value.toPrecision(4)));
}

/** Return the table of pairs; `asked` are the labels of what is looked at in A and B, if it is not the same. */
function pairTable(list, all, by, asked) {
  const quantity = quantityOf(by[0]);
  const answered = quantity || asked || (by[0] !== "" && !index.outcomeByName.has(by[0]));
  const differ = list.filter((pair) => pair.differ);
  const rows = all ? list : differ;
  const worded = (value) => (quantity ? amount(value, quantity) : value ? "yes" : "no");
  const ended = (simulation, value) => h("td", null, h("a", { href: link(["game", simulation.short]) }, pill(outcomeOf(simulation).label, outcomeOf(simulation).color)),
    answered && h("small", null, ` ${worded(value)}`));
  return h("div", { class: "pairs-found" },
    h("p", { role: "status" }, h("b", null, number(differ.length)), ` of ${counted(list.length, "pair")} differ`, whereMore(list, quantity)),
    rows.length ? h("table", { class: "pairs" },
      h("thead", null, h("tr", null, ["Seed", ...["A", "B"].map((side, which) => (asked ? `${side}: ${asked[which]}` : side)), ""].map((text) => h("th", { scope: "col" }, text || h("span", { class: "sr" }, "Links"))))),
      h("tbody", null, rows.slice(0, 1000).map(({ one, other, left, right, differ: differs }) => h("tr", { class: differs ? null : "soft" },
        h("th", { scope: "row" }, String(one.seed), one.repeat ? `, repeat ${one.repeat}` : ""),
        ended(one, left), ended(other, right),
        h("td", null, one !== other && h("a", { class: "button quiet", href: link(["compare", one.short, other.short]), "aria-label": `Side by side, seed ${one.seed}` }, "Side by side"))))))
      : h("div", { class: "empty" }, h("p", null, list.length ? "No pair differs." : "These conditions have no seed in common.")),
    rows.length > 1000 ? note("warn", `The first 1,000 of ${number(rows.length)} pairs are shown.`) : null);
}
