// One game as a transcript, from start to end.

let withPrompts = false;

/** Return the page on which a game is read through. */
function readPage(simulation) {
  const page = loadedPage([simulation], "read", [gameHead(simulation, "read")], (node, [game]) => {
    const box = h("input", { type: "checkbox", id: "with-prompts", checked: withPrompts, onchange: () => { withPrompts = box.checked; draw(); } });
    const transcript = h("div", { class: "transcript" });
    const draw = () => transcript.replaceChildren(...game.rounds.map((round) => roundBlock(game, simulation, round)));
    node.append(h("p", { class: "bar" }, h("label", { class: "check" }, box, h("span", null, "with what each agent was sent")), h("span", { class: "grow" }),
      h("button", { type: "button", class: "quiet", onclick: () => print() }, "Print")), legend([game]), transcript);
    draw();
  });
  page.back = () => { location.hash = link(["game", simulation.short]); return true; };
  return page;
}

function roundBlock(game, simulation, round) {
  const phases = Map.groupBy(game.all.filter((attempt) => attempt.round === round), (attempt) => attempt.phase);
  const silent = game.agents.map((_, agent) => agent).filter((agent) => game.at(agent, round) && !game.tried(agent, round).length);
  const result = game.results?.[round];
  return h("section", null, h("h2", null, `${capital(game.roundName)} ${round}`),
    [...phases].map(([phase, attempts]) => [phases.size > 1 ? h("h3", null, shown(phase)) : null,
      [...Map.groupBy(attempts, (attempt) => attempt.agent)].map(([agent, tried]) => turn(game, simulation, agent, round, tried))]),
    silent.map((agent) => turn(game, simulation, agent, round, [])),
    result ? h("p", { class: "result" }, h("b", null, shown(game.results_label ?? "Result")), " ", shown(result)) : null);
}

/** Return what one agent said in a phase: its last attempt, and why earlier ones failed. */
function turn(game, simulation, agent, round, tried) {
  const cell = game.at(agent, round);
  const state = cell?.state;
  const last = tried.at(-1);
  const failures = tried.filter((attempt) => attempt.failure !== null).map((attempt) => `${attempt.failure}${attempt.detail ? `: ${attempt.detail}` : ""}`);
  const me = game.agents[agent];
  return h("div", { class: `turn${me.framed ? " framed" : ""}` },
    h("p", { class: "who" }, groupSign(game, me),
      h("a", { href: link(["game", simulation.short], [["agent", me.name], ["round", round], ["phase", last?.phase]]) }, shown(me.label)),
      state && h("span", { class: "dot", style: { "--c": state.color }, title: plain(state.label), role: "img", "aria-label": plain(state.label) }),
      cell?.marks.map((label) => signOf(game, label))),
    h("div", { class: "words" },
      last === game.tried(agent, round).at(-1) ? unheardOf(game, agent, round) : null,
      withPrompts && last ? Object.keys(SENT).filter((name) => last[name] !== null).map((name) => h("details", { class: "fold", open: name === "user" }, h("summary", null, SENT[name]), prose(last[name]))) : null,
      failures.map((text) => note("bad", shown(text))),
      last ? (last.parsed !== null ? fields(last.parsed) : last.reply !== null && prose(last.reply, { class: "reply" })) : h("p", null, shown(cell.text || "–"))));
}

function capital(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
