// The page of one game: its matrix, and the panel about the chosen cell.

/** Return the simulation that an address names, or null. */
function simulationOf(id) {
  return index.byId.get(id) ?? index.byId.get(id.slice(0, 8)) ?? null;
}

/** Return the next simulation that ended as this one did, in the order of the list; `step` is 1 or -1. */
function neighbor(simulation, step) {
  const placeIn = (list) => list.findIndex((one) => one.id === simulation.id); // a refreshed index has other objects
  const order = lastChosen && placeIn(lastChosen) >= 0 ? lastChosen : index.simulations;
  const same = order.filter((one) => stateName(one) === stateName(simulation) || one.id === simulation.id);
  return same[placeIn(same) + step] ?? null;
}

/** Return what stands above a game: its name, how it ended, and ways to others. `kind` is "game" or "read". */
function gameHead(simulation, kind) {
  lastGame = simulation.id;
  const outcome = outcomeOf(simulation);
  const to = (step, key, words) => {
    const next = neighbor(simulation, step);
    return next && h("a", { class: "button quiet", href: link([kind, next.short]), title: `${words} that ended like this (${key})`, "aria-keyshortcuts": key, rel: step > 0 ? "next" : "prev" },
      step < 0 ? "← " : "", step < 0 ? "Previous" : "Next", step > 0 ? " →" : "");
  };
  const partners = partnersOf(simulation);
  return h("header", { class: "game-head" },
    h("div", null,
      h("h1", { tabindex: -1 }, shown(simulation.condition.label), h("span", { class: "soft" }, ` · seed ${simulation.seed}${simulation.repeat ? `, repeat ${simulation.repeat}` : ""}`)),
      h("p", { class: "outcome-line" }, pill(outcome.label, outcome.color), simulation.diagnosis && h("span", null, shown(spaced(simulation.diagnosis))),
        h("span", { class: "soft" }, [simulation.rounds === null ? null : counted(simulation.rounds, "round"), simulation.replies === null ? null : counted(simulation.replies, "reply").replace("replys", "replies"),
          simulation.failed ? `${number(simulation.failed)} failed` : null, simulation.short].filter(Boolean).join(" · ")))),
    h("nav", { "aria-label": "Games" }, to(-1, "p", "The game before"), to(1, "n", "The next game"),
      h("a", { class: "button", href: link([kind === "game" ? "read" : "game", simulation.short]) }, kind === "game" ? "Read through" : "Matrix"),
      partners.length ? partnerChoice(simulation, partners) : null));
}

function partnerChoice(simulation, partners) {
  const options = [["", "Beside the same seed in …"], ...partners.slice(0, 200).map((one) => [one.short, `${nameOf(one)}: ${outcomeOf(one).label}`])];
  return select({ "aria-label": "Compare with the same seed in another condition", class: "partners", id: "partners",
    onchange: (event) => event.target.value && go(link(["compare", simulation.short, event.target.value])) }, options, "");
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

/** Return the page of one game. */
function gamePage(simulation, query) {
  const place = { agent: 0, round: null, phase: query.get("phase"), diff: query.get("diff") };
  const page = loadedPage([simulation], "game", [gameHead(simulation, "game")], (node, [game]) => {
    const named = game.agents.findIndex((agent) => agent.name === query.get("agent"));
    place.agent = Math.max(0, named);
    const round = query.has("round") ? Number(query.get("round")) : null; // Number(null) is 0, and some games have a round 0
    place.round = game.rounds.includes(round) ? round : null;
    const side = h("div", { class: "side" });
    const draw = () => {
      const focused = document.activeElement?.id;
      side.replaceChildren(place.round === null ? emptyPanel() : panel(simulation, game, place, change));
      if (focused && side.contains(document.getElementById(focused))) document.getElementById(focused).focus();
    };
    const change = (changes) => {
      Object.assign(place, changes);
      replaceQuery({ agent: place.round === null ? null : game.agents[place.agent].name, round: place.round, phase: place.phase, diff: place.diff });
      draw();
    };
    const table = matrix([{ game }], place.round === null ? null : { which: 0, ...place }, (next, byKey) => {
      change({ agent: next.agent, round: next.round });
      table.choose({ which: 0, ...next }, true);
      if (!byKey && matchMedia("(max-width: 1000px)").matches) side.scrollIntoView({ block: "start" });
      announce(cellWords(game, next.agent, next.round));
    });
    page.diff = () => place.round !== null && change({ diff: place.diff ? "" : "prev" });
    page.back = () => {
      if (place.round === null) return false;
      change({ round: null, phase: null });
      table.choose(null, true);
      return true;
    };
    page.arrow = (key) => {
      const first = game.rounds.find((round) => game.at(0, round));
      if (first !== undefined && place.round === null) { change({ agent: 0, round: first }); table.choose({ which: 0, agent: 0, round: first }, true); }
      else table.choose({ which: 0, ...place }, true);
    };
    node.append(h("div", { class: "split" }, h("div", { class: "main" }, table.node, metricsOf(game)), side));
    draw();
  });
  page.simulation = simulation;
  page.next = (step) => { const to = neighbor(simulation, step); if (to) go(link(["game", to.short])); else announce("There is no other game with this outcome."); };
  return page;
}

function emptyPanel() {
  return h("div", { class: "empty" }, h("p", null, "Choose a cell to see what the agent was sent and what it answered."),
    h("p", { class: "soft" }, "Arrow keys walk through agents and rounds, ", h("kbd", null, "?"), " lists all keys."));
}

/** Return the numbers of a game. */
function metricsOf(game) {
  const metrics = Object.entries(game.metrics ?? {}).filter(([, value]) => value !== null);
  if (!metrics.length) return null;
  return h("details", { class: "fold metrics" }, h("summary", null, "Numbers of this game"),
    h("dl", null, metrics.map(([name, value]) => h("div", null, h("dt", null, shown(name)), h("dd", null, shown(typeof value === "number" ? number(value) : valueText(value)))))));
}
