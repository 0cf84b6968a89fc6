// What the forks of a recorded game say of its messages.

/** Return a function that gives, for an agent and round of a recorded game, its messages that forks left out, what has most influence first. */
function influencesOf(simulation, game) {
  const own = index.influences.filter(([parent]) => parent === simulation.at).map(([, agent, round, phase, forks, fork, size, low, high]) => (
    { agent, round, forks, fork: index.simulations[fork], size, words: `influence ${signed(size)} [${signed(low)}, ${signed(high)}] of ${phase || "its message"}, ${counted(forks, "fork")} without it` }));
  const cells = Map.groupBy(own.sort((one, two) => Math.abs(two.size) - Math.abs(one.size)), ({ agent, round }) => `${agent},${round}`);
  return (agent, round) => cells.get(`${game.agents[agent].name},${round}`) ?? [];
}

function signed(size) {
  return `${size < 0 ? "\u2212" : "+"}${Math.abs(size).toFixed(2)}`;
}

/** Color a cell by the strongest influence of its messages. */
function weigh(cell, [strongest]) {
  if (!strongest) return;
  cell.classList.add("weighed", ...(strongest.size < 0 ? ["against"] : []));
  cell.style.setProperty("--share", `${Math.round(70 * Math.abs(strongest.size))}%`);
}

/** Return what is known of the messages of a cell, each with a way to a fork without it; null for nothing. */
function influenceList(simulation, game, agent, round) {
  const known = game.influences(agent, round);
  const beside = (fork) => link(["compare", simulation.short, fork.short], [["agent", game.agents[agent].name], ["round", round]]);
  return known.length ? h("ul", { class: "facts influences" }, known.map(({ words, fork }) => h("li", null, shown(words), " · ", h("a", { href: beside(fork) }, "see one beside it")))) : null;
}

/** Return the lines of the legend about influence; none for games without. */
function influenceLegend(games) {
  if (!games.some((game) => game.weighed)) return [];
  return [h("li", { title: "By how much less often forks without the message end as this game did than forks that leave nothing out" },
    h("span", { class: "weight-key against", "aria-hidden": "true" }), " \u22121 ", h("span", { class: "weight-key", "aria-hidden": "true" }), " +1 influence, above the stripe of the usual color")];
}
