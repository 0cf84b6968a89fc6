// Two games, one above the other with the same rounds, and the pairs of two conditions.

/** Return the page of two games. */
function comparePage(one, other, query) {
  const pair = [one, other];
  const page = loadedPage(pair, "compare", [h("h1", { class: "sr", tabindex: -1 }, `${nameOf(one)} beside ${nameOf(other)}`)], (node, games) => {
    const parting = partingRound(...games);
    const place = { which: Number(query.get("game") ?? 0), agent: 0, round: null, phase: query.get("phase"), diff: query.get("diff") };
    const round = Number(query.get("round"));
    if (query.has("round") && games.some((game) => game.rounds.includes(round))) {
      const found = games[place.which]?.agents.findIndex((agent) => agent.name === query.get("agent"));
      Object.assign(place, { agent: Math.max(0, found ?? 0), round });
    }
    const side = h("div", { class: "panels" });
    const agentIn = (which) => games[which].agents.findIndex((agent) => agent.name === games[place.which].agents[place.agent].name);
    const draw = () => {
      const focused = document.activeElement?.id;
      side.replaceChildren(...(place.round === null
        ? [h("div", { class: "empty" }, h("p", null, "Choose a cell to see what this agent was sent and answered in both games."))]
        : games.map((game, which) => panelIn(which, game))));
      const again = focused && document.getElementById(focused);
      if (again && side.contains(again)) again.focus();
    };
    const diffIn = (which) => (place.diff === `sim:${pair[which].short}` ? `sim:${pair[1 - which].short}` : place.diff); // never with itself
    const panelIn = (which, game) => {
      const agent = agentIn(which);
      const title = h("p", { class: "which" }, h("b", null, "AB"[which]), " ", shown(nameOf(pair[which])));
      if (agent < 0 || !game.at(agent, place.round)) return h("div", null, title, note("calm", `This game has nothing of that agent in ${game.roundName} ${place.round}.`));
      const shownPanel = panel(pair[which], game, { ...place, agent, diff: diffIn(which) }, change);
      for (const part of shownPanel.querySelectorAll("[id]")) part.id += `-${which}`;
      shownPanel.removeAttribute("aria-labelledby");
      shownPanel.setAttribute("aria-label", `${"AB"[which]}: what was sent and answered`);
      shownPanel.id = `panel-${which}`;
      return h("div", null, title, shownPanel);
    };
    const change = (changes) => {
      Object.assign(place, changes);
      replaceQuery({ game: place.which || null, agent: place.round === null ? null : games[place.which].agents[place.agent].name, round: place.round, phase: place.phase, diff: place.diff });
      draw();
    };
    const titles = pair.map((simulation, which) => [h("b", null, "AB"[which]), " ", h("a", { href: link(["game", simulation.short]) }, shown(nameOf(simulation))), " ",
      pill(outcomeOf(simulation).label, outcomeOf(simulation).color)]);
    const table = matrix(games.map((game, which) => ({ game, title: titles[which] })), place.round === null ? null : place, (next) => {
      change(next);
      table.choose(next, true);
      announce(`${"AB"[next.which]}: ${cellWords(games[next.which], next.agent, next.round)}`);
    }, parting);
    page.diff = () => place.round !== null && change({ diff: place.diff ? "" : `sim:${pair[1 - place.which].short}` });
    page.back = () => {
      if (place.round === null) return false;
      change({ round: null });
      table.choose(null, true);
      return true;
    };
    page.arrow = () => {
      const first = games[0].rounds[0];
      if (place.round === null && games[0].at(0, first)) change({ which: 0, agent: 0, round: first });
      table.choose(place.round === null ? null : place, true);
    };
    node.append(note("calm parting-note", parting === null ? "The cells of these two games are the same to the end."
      : ["The two games part in ", h("b", null, `${games[0].roundName} ${parting}`), ", the first in which a cell differs. Cells that differ are dashed."]), table.node, side);
    draw();
  });
  return page;
}

/** Return the condition that a query names as a or b, by its number or by values of axes. */
function conditionBy(query, name) {
  if (query.has(name)) return index.conditions.find((condition) => condition.id === query.get(name)) ?? null;
  const axes = [...query].filter(([key]) => key.startsWith(`${name}.`)).map(([key, value]) => [key.slice(name.length + 1), sameCase(value)]);
  if (!axes.length) return null;
  return index.conditions.find((condition) => axes.every(([axis, value]) => sameCase(condition.axes[axis]) === value)) ?? null;
}

/** Return the page of the pairs of two conditions. */
function pairsPage(query) {
  const page = h("div", { class: "page pairs-page" });
  let [a, b] = [conditionBy(query, "a"), conditionBy(query, "b")];
  let by = query.get("outcome") ?? "";
  let all = query.has("all");
  const named = (name) => [...query.keys()].some((key) => key === name || key.startsWith(`${name}.`));
  let lost = (!a && named("a")) || (!b && named("b")); // until the reader chooses another, the address stays as it was sent
  const conditions = index.conditions.map((condition) => [condition.id, condition.label]);
  const choice = (name, chosen, set) => h("label", null, h("span", null, name),
    select({ id: `pairs-${name}`, onchange: (event) => { lost = false; set(index.conditions.find((one) => one.id === event.target.value) ?? null); draw(); } }, [["", "choose …"], ...conditions], chosen?.id ?? ""));
  const draw = () => {
    const focused = document.activeElement?.id;
    if (!lost) history.replaceState(null, "", link(["pairs"], [["a", a?.id], ["b", b?.id], ["outcome", by], ["all", all ? 1 : null]]));
    const outcomes = [["", "any outcome"], ...[...index.outcomes, ...(index.indicators ?? [])].map((one) => [one.name, one.label])];
    const box = h("input", { type: "checkbox", id: "pairs-all", checked: all, onchange: () => { all = box.checked; draw(); } });
    page.replaceChildren(h("h1", { tabindex: -1 }, "Pairs of two conditions"),
      h("p", { class: "soft" }, "Games of both conditions with the same seed started alike. Discordant pairs are those that ended differently: they are what a contrast is made of."),
      h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, h("div", { class: "fields" },
        choice("A", a, (one) => { a = one; }), choice("B", b, (one) => { b = one; }),
        h("label", null, h("span", null, "that differ in"), select({ id: "pairs-outcome", onchange: (event) => { by = event.target.value; draw(); } }, outcomes, by)),
        h("label", { class: "check" }, box, h("span", null, "also pairs that do not")))));
    if (focused) document.getElementById(focused)?.focus();
    if (!a || !b) { page.append(note("calm", lost ? "The address names a condition that is not in this study. Choose one." : "Choose two conditions.")); return; }
    page.append(pairTable(pairList(a, b, by), all, by !== "" && !index.outcomeByName.has(by)));
  };
  page.start = draw;
  page.back = () => { go("#/"); return true; };
  return page;
}

/** Return the pairs of two conditions, with what each game shows: how it ended, or whether `by` is true of it.
 * As in contrasts, a game without an answer makes no pair: one that is damaged or not over, or to which `by` does not apply. */
function pairList(a, b, by) {
  const indicator = indicatorOf(by);
  const value = (simulation) => {
    if (simulation.damaged || simulation.running) return null;
    if (indicator) return indicator.values[simulation.at] ?? null;
    return by === "" ? stateName(simulation) : stateName(simulation) === by;
  };
  const keyOf = (simulation) => `${simulation.pair} ${simulation.repeat}`;
  const inB = new Map(index.simulations.filter((one) => one.condition.id === b.id && one.pair !== null).map((one) => [keyOf(one), one]));
  const pairs = index.simulations.filter((one) => one.condition.id === a.id && inB.has(keyOf(one))).map((one) => {
    const other = inB.get(keyOf(one));
    return { one, other, left: value(one), right: value(other), differ: value(one) !== value(other) };
  });
  return pairs.filter(({ left, right }) => left !== null && right !== null);
}

/** Return in which of both conditions the pairs that differ have what is asked for. */
function onlyIn(differ) {
  const of = (side) => differ.filter((pair) => pair[side] === true).length;
  return of("left") + of("right") ? `: ${number(of("left"))} only in A, ${number(of("right"))} only in B.` : ".";
}

function pairTable(list, all, indicated) {
  const differ = list.filter((pair) => pair.differ);
  const rows = all ? list : differ;
  const ended = (simulation, value) => h("td", null, h("a", { href: link(["game", simulation.short]) }, pill(outcomeOf(simulation).label, outcomeOf(simulation).color)),
    indicated && h("small", null, ` ${value ? "yes" : "no"}`));
  return h("div", { class: "pairs-found" },
    h("p", { role: "status" }, h("b", null, number(differ.length)), ` of ${counted(list.length, "pair")} differ`, onlyIn(differ)),
    rows.length ? h("table", { class: "pairs" },
      h("thead", null, h("tr", null, ["Seed", "A", "B", ""].map((text) => h("th", { scope: "col" }, text || h("span", { class: "sr" }, "Links"))))),
      h("tbody", null, rows.slice(0, 1000).map(({ one, other, left, right, differ: differs }) => h("tr", { class: differs ? null : "soft" },
        h("th", { scope: "row" }, String(one.seed), one.repeat ? `, repeat ${one.repeat}` : ""),
        ended(one, left), ended(other, right),
        h("td", null, h("a", { class: "button quiet", href: link(["compare", one.short, other.short]), "aria-label": `Side by side, seed ${one.seed}` }, "Side by side"))))))
      : h("div", { class: "empty" }, h("p", null, list.length ? "No pair differs." : "These conditions have no seed in common.")),
    rows.length > 1000 ? note("warn", `The first 1,000 of ${number(rows.length)} pairs are shown.`) : null);
}
