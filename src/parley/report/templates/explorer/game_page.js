// The page of one game: its matrix, and the panel about the chosen cell.

/** Return the simulation that an address names, or null. */
function simulationOf(id) {
  return index.byId.get(id) ?? index.byId.get(id.slice(0, 8)) ?? null;
}

/** Return the next simulation that ended as this one did, in the order of the list; `step` is 1 or -1. */
function neighbor(simulation, step) {
  const order = lastChosen?.includes(simulation) ? lastChosen : index.simulations;
  const same = order.filter((one) => stateName(one) === stateName(simulation));
  return same[same.indexOf(simulation) + step] ?? null;
}

/** Return what stands above a game: its name, how it ended, and ways to others. `kind` is "game" or "read". */
function gameHead(simulation, kind) {
  lastGame = rowId(simulation);
  const outcome = outcomeOf(simulation);
  const to = (step, words) => {
    const next = neighbor(simulation, step);
    return next && h("a", { class: "button quiet", href: link([kind, next.short]), title: `${words} that ended like this`, rel: step > 0 ? "next" : "prev" },
      step < 0 ? "← " : "", step < 0 ? "Previous" : "Next", step > 0 ? " →" : "");
  };
  const partners = partnersOf(simulation);
  const parent = index.simulations[simulation.parent];
  return h("header", { class: "game-head" },
    h("div", null,
      h("h1", { tabindex: -1 }, shown(simulation.condition.label), h("span", { class: "soft" }, ` · seed ${simulation.seed}${simulation.repeat ? `, repeat ${simulation.repeat}` : ""}`)),
      h("p", { class: "outcome-line" }, pill(outcome.label, outcome.color), simulation.diagnosis && h("span", null, shown(spaced(simulation.diagnosis))),
        h("span", { class: "soft" }, [simulation.rounds === null ? null : counted(simulation.rounds, "round"), simulation.replies === null ? null : counted(simulation.replies, "reply").replace("replys", "replies"),
          simulation.failed ? `${number(simulation.failed)} failed` : null, simulation.short].filter(Boolean).join(" · ")))),
    h("nav", { "aria-label": "Games" }, to(-1, "The game before"), to(1, "The next game"),
      h("a", { class: "button", href: link([kind === "game" ? "read" : "game", simulation.short]) }, kind === "game" ? "Read through" : "Matrix"),
      parent && h("a", { class: "button", href: link(["compare", parent.short, simulation.short]) }, "Beside the recorded game"),
      partners.length ? partnerChoice(simulation, partners) : null));
}

function partnerChoice(simulation, partners) {
  const options = [["", "Beside the same seed in …"], ...partners.slice(0, 200).map((one) => [one.short, `${nameOf(one)}: ${outcomeOf(one).label}`])];
  return select({ "aria-label": "Compare with the same seed in another condition", class: "partners", id: "partners",
    onchange: (event) => { if (event.target.value) location.hash = link(["compare", simulation.short, event.target.value]); } }, options, "");
}

/** Return a page that is filled when its simulations are loaded, below `head`; what is damaged or missing is said in its place. */
function loadedPage(simulations, kind, head, fill) {
  const page = h("div", { class: `page ${kind}-page` });
  let current = true;
  page.end = () => { current = false; };
  page.start = async () => {
    page.replaceChildren(...head, note("calm loading", "Loading …"));
    for (const one of simulations) {
      if (one.damaged) page.append(note("bad", h("b", null, "This record is damaged. "), shown(one.damaged)));
    }
    try {
      const games = await Promise.all(simulations.map(gameOf));
      if (current) fill(page, games);
    } catch (error) {
      const said = simulations.some((one) => one.damaged === error.message);
      if (current && !said) page.append(note("bad", shown(error.message)));
    }
    page.querySelector(".loading")?.remove();
  };
  return page;
}

/** Return the page of one game, or of two, one above the other with the same rounds. */
function gamePage(simulations, query) {
  const two = simulations.length > 1;
  const [simulation] = simulations;
  const place = { which: two ? Number(query.get("game") ?? 0) : 0, agent: 0, round: null, phase: query.get("phase"), diff: query.get("diff") };
  const head = two ? h("h1", { class: "sr", tabindex: -1 }, simulations.map(nameOf).join(" beside ")) : gameHead(simulation, "game");
  const page = loadedPage(simulations, two ? "compare" : "game", [head], (node, games) => {
    const parting = two ? partingRound(...games) : null;
    const named = games[place.which]?.agents.findIndex((agent) => agent.name === query.get("agent"));
    place.agent = Math.max(0, named ?? 0);
    const round = query.has("round") ? Number(query.get("round")) : null; // Number(null) is 0, and some games have a round 0
    place.round = games.some((game) => game.rounds.includes(round)) ? round : null;
    const side = h("div", { class: two ? "panels" : "side" });
    const draw = () => redraw(() => side.replaceChildren(...(place.round === null ? [emptyPanel(two)] : games.map((game, which) => panelIn(which, game)))));
    const panelIn = (which, game) => {
      if (!two) return panel(simulation, game, place, change);
      const agent = game.agents.findIndex((one) => one.name === games[place.which].agents[place.agent].name);
      const title = h("p", { class: "which", id: `which-${which}` }, h("b", null, "AB"[which]), " ", shown(nameOf(simulations[which])));
      if (agent < 0 || !game.at(agent, place.round)) return h("div", null, title, note("calm", `This game has nothing of that agent in ${game.roundName} ${place.round}.`));
      const itself = place.diff === `sim:${simulations[which].short}`; // it is compared with the other one instead
      return h("div", null, title, panel(simulations[which], game, { ...place, agent, diff: itself ? `sim:${simulations[1 - which].short}` : place.diff }, change, `-${which}`));
    };
    const change = (changes) => {
      Object.assign(place, changes);
      const agent = place.round === null ? null : games[place.which].agents[place.agent].name;
      history.replaceState(null, "", link(route().path, Object.entries({ agent, round: place.round, phase: place.phase, diff: place.diff, game: place.which || null })));
      draw();
    };
    const now = () => (place.round === null ? null : place);
    const titled = games.map((game, which) => ({ game, title: two && [h("b", null, "AB"[which]), " ",
      h("a", { href: link(["game", simulations[which].short]) }, shown(nameOf(simulations[which]))), " ",
      pill(outcomeOf(simulations[which]).label, outcomeOf(simulations[which]).color)] }));
    const table = matrix(titled, now(), (next, byKey) => {
      change(next);
      table.choose(place, true);
      if (!two && !byKey && matchMedia("(max-width: 1000px)").matches) side.scrollIntoView({ block: "start" });
      announce(`${two ? `${"AB"[next.which]}: ` : ""}${cellWords(games[next.which], next.agent, next.round)}`);
    }, parting);
    page.back = () => {
      if (place.round === null) return false;
      change({ round: null, phase: null });
      table.choose(null, true);
      return true;
    };
    page.arrow = () => {
      const first = games[0].rounds.find((one) => games[0].at(0, one));
      if (place.round === null && first !== undefined) change({ which: 0, agent: 0, round: first });
      table.choose(now(), true);
    };
    if (two) {
      node.append(note("calm parting-note", parting === null ? "The cells of these two games are the same to the end."
        : ["The two games part in ", h("b", null, `${games[0].roundName} ${parting}`), ", the first in which a cell differs. Cells that differ are dashed."]), table.node, side);
    } else node.append(h("div", { class: "split" }, h("div", { class: "main" }, table.node, metricsOf(games[0])), side));
    draw();
  });
  return page;
}

function emptyPanel(two) {
  const where = two ? "this agent was sent and answered in both games" : "the agent was sent and what it answered";
  return h("div", { class: "empty" }, h("p", null, `Choose a cell to see what ${where}.`),
    two ? null : h("p", { class: "soft" }, "Arrow keys walk through agents and rounds, Esc goes back."));
}

/** Return the numbers of a game. */
function metricsOf(game) {
  const metrics = Object.entries(game.metrics ?? {}).filter(([, value]) => value !== null);
  if (!metrics.length) return null;
  return h("details", { class: "fold metrics" }, h("summary", null, "Numbers of this game"),
    h("dl", null, metrics.map(([name, value]) => h("div", null, h("dt", null, shown(name)), h("dd", null, shown(typeof value === "number" ? number(value) : valueText(value)))))));
}
