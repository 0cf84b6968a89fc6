// A game as a matrix: agents by rounds, with what each said or did.

/**
 * Return the matrix of one game or of several, one above the other with the same columns.
 * `games` are {game, title}; `chosen` is {which, agent, round} or null; `choose` is called with another one.
 * The result is {node, choose}: `choose` marks another cell, and focuses it if asked.
 */
function matrix(games, chosen, choose, parting = null) {
  const rounds = [...new Set(games.flatMap(({ game }) => game.rounds))].sort((a, b) => a - b);
  const hearing = h("p", { class: "hearing" }, "\u00a0");
  const table = h("table", { class: "matrix", role: "grid", "aria-label": "Agents by rounds", style: { "--letters": String(lettersOf(games)) } },
    h("thead", null, h("tr", { role: "row" }, h("th", { class: "name", scope: "col" }, "Agent"), rounds.map((round) => h("th", {
      scope: "col", class: round === parting ? "parting" : null, title: round === parting ? "Here the two games part" : null },
      h("span", { class: "sr" }, `${games[0].game.roundName} `), String(round),
      games.some(({ game }) => game.rounds.at(-1) === round) && h("small", { class: "end" }, "end"))))),
    games.map((one, which) => bodyOf(one, which, rounds, parting, games[1 - which]?.game ?? null)));
  const mark = (now, focus) => {
    for (const cell of table.querySelectorAll("[tabindex='0']")) cell.tabIndex = -1;
    table.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    const named = now && table.querySelector(`[data-place="${now.which},${now.agent},${now.round}"]`);
    named?.setAttribute("aria-selected", "true");
    const cell = named ?? table.querySelector("[data-place]");
    if (cell) cell.tabIndex = 0;
    if (focus) cell?.focus();
  };
  table.addEventListener("click", (event) => placeOf(event) && choose(placeOf(event)));
  table.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && placeOf(event)) document.getElementById("panel-title")?.focus();
    const next = placeOf(event) && moved(event.target, event.key);
    if (event.ctrlKey || event.metaKey || event.altKey || !next) return;
    event.preventDefault();
    event.stopPropagation();
    choose(placeOf({ target: next }), true);
  });
  for (const name of ["pointerover", "focusin"]) table.addEventListener(name, (event) => showHearing(games, table, hearing, placeOf(event)));
  for (const name of ["pointerleave", "focusout"]) table.addEventListener(name, () => showHearing(games, table, hearing, null));
  mark(chosen, false);
  const node = h("div", { class: "matrix-box" }, h("div", { class: "scroll" }, table), hearing, legend(games.map((one) => one.game)));
  return { node, choose: mark };
}

/** Return the place of the cell in which something happened: {which, agent, round}; null elsewhere. */
function placeOf({ target }) {
  const [which, agent, round] = target.closest("[data-place]")?.dataset.place.split(",").map(Number) ?? [];
  return which === undefined ? null : { which, agent, round };
}

/** Return how many letters the cells are wide: what most texts need. */
function lettersOf(games) {
  const lengths = games.flatMap(({ game }) => game.agents.flatMap((_, agent) => game.rounds.map((round) => game.at(agent, round)?.text.length ?? 0)));
  return Math.max(3, Math.min(14, Math.max(0, ...lengths)));
}

function bodyOf({ game, title }, which, rounds, parting, other) {
  const first = game.agents.findIndex((agent) => agent.framed);
  const rows = game.agents.map((agent, at) => h("tr", { role: "row", class: agent.framed ? "framed" : null, "data-agent": `${which},${at}` },
    h("th", { scope: "row", class: "name", title: plain([agent.label, agent.role, agent.player].filter(Boolean).join(" · ")) },
      groupSign(game, agent), h("span", null, shown(agent.label)), agent.framed && h("small", null, shown(agent.role ?? "")),
      agent.framed && at === first && game.framed_label ? h("span", { class: "sr" }, shown(`, ${game.framed_label}`)) : null),
    rounds.map((round) => cellOf(game, which, at, round, parting, other))));
  const results = Object.keys(game.results ?? {}).length ? h("tr", { role: "row", class: "results" },
    h("th", { scope: "row", class: "name" }, shown(game.results_label ?? "Result")),
    rounds.map((round) => {
      const text = game.results[round] ?? "";
      return h("td", { role: "gridcell", title: text.length > 6 ? plain(text) : null, class: round === parting ? "parting" : null }, shown(text));
    })) : null;
  return h("tbody", null, other && h("tr", { role: "row", class: "game-title" }, h("th", { colspan: rounds.length + 1, scope: "rowgroup" }, h("span", { class: "title" }, title))), rows, results);
}

function cellOf(game, which, agent, round, parting, other) {
  const cell = game.at(agent, round);
  const words = cellWords(game, agent, round);
  const classes = [cell === null ? "none" : null, round === parting ? "parting" : null, other && differs(game, other, agent, round) ? "differs" : null];
  const node = h("td", { role: "gridcell", tabindex: -1, "aria-label": words, title: words, class: classes.filter(Boolean).join(" ") || null });
  if (cell === null) return node;
  node.dataset.place = `${which},${agent},${round}`;
  node.setAttribute("aria-selected", "false");
  if (cell.state) node.style.setProperty("--c", cell.state.color);
  if (cell.state) node.classList.add("stated");
  node.append(h("span", { class: "said" }, shown(cell.text)), h("span", { class: "signs", "aria-hidden": "true" }, cell.marks.map((label) => signOf(game, label))));
  return node;
}

/** Return the sign of a mark, for the eye alone. */
function signOf(game, label) {
  const { glyph, kind } = game.signs.get(label);
  return h("i", { class: kind, "aria-hidden": "true", title: plain(label) }, glyph);
}

/** Return the sign of the group that an agent plays in, where a role has several. */
function groupSign(game, agent) {
  const at = game.groups.indexOf(groupOf(agent));
  return at >= 0 && h("small", { class: "of-group" }, String.fromCharCode(0x2460 + at));
}

/** Return the cell that a key goes to from another one; null for other keys. */
function moved(cell, key) {
  const row = [...cell.parentElement.cells];
  const column = [...cell.closest("table").rows].map((one) => one.cells[cell.cellIndex]);
  const line = (["ArrowUp", "ArrowDown"].includes(key) ? column : row).filter((one) => one?.dataset.place);
  const at = line.indexOf(cell);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: line.length - 1 }[key];
  return to === undefined ? null : line[to] ?? cell;
}

/** Show whom the agent under the pointer or focus hears. */
function showHearing(games, table, line, place) {
  for (const row of table.querySelectorAll(".heard, .hearer")) row.classList.remove("heard", "hearer");
  const game = place && games[place.which].game;
  const names = game?.hears(place.agent) ?? null;
  line.textContent = "\u00a0";
  if (names === null) return;
  const me = game.agents[place.agent];
  const rowOf = (agent) => table.querySelector(`[data-agent="${place.which},${agent}"]`);
  const everyone = names.length >= game.agents.length - 1;
  rowOf(place.agent)?.classList.add("hearer");
  if (!everyone) game.agents.forEach((agent, at) => names.includes(agent.name) && rowOf(at)?.classList.add("heard"));
  const labels = game.agents.filter((agent) => names.includes(agent.name)).map((agent) => agent.label);
  line.replaceChildren(...shown(`${me.label} hears ${everyone ? "everyone" : labels.join(", ") || "nobody"}`));
}

/** Return what colors and signs mean, of those that occur. */
function legend(games) {
  const states = new Map(games.flatMap((game) => game.states.map((state) => [state.name, state])));
  const signs = new Map(games.flatMap((game) => [...game.signs.keys()].map((label) => [label, game])));
  const framed = games.find((game) => game.agents.some((agent) => agent.framed));
  const groups = [...new Set(games.flatMap((game) => game.agents.filter((agent) => groupSign(game, agent))
    .map((agent) => `${groupSign(game, agent).textContent} ${groupOf(agent)}`)))];
  return h("ul", { class: "legend", "aria-label": "Legend" },
    groups.map((group) => h("li", null, shown(group))),
    [...states.values()].map((state) => h("li", null, pill(state.label, state.color))),
    framed && h("li", null, h("span", { class: "frame-key", "aria-hidden": "true" }), shown(framed.framed_label || "stands out")),
    games.some((game) => game.hasUnheard) && h("li", null, h("s", null, "agent: value"), " left out by the filter of who would have heard it"),
    [...signs].map(([label, game]) => h("li", null, signOf(game, label), " ", shown(label))));
}
