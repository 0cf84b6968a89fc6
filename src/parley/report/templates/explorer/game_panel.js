// What one agent was sent and answered in one round.

const unfolded = { user: true, system: false, sent: false, raw: false }; // as the reader left them, from cell to cell

/**
 * Return a panel about one agent and round of a game.
 * `place` is {agent, round, phase, diff}; `change` is called with what of it changes. With `side` its ids end: of two, each has one.
 */
function panel(simulation, game, place, change, side = "") {
  const agent = game.agents[place.agent];
  const tried = game.tried(place.agent, place.round);
  const phases = [...Map.groupBy(tried, (attempt) => attempt.phase).keys()];
  const phase = phases.includes(place.phase) ? place.phase : phases[0];
  const cell = game.at(place.agent, place.round);
  const state = cell?.state;
  const tabs = phases.length > 1 && h("div", { class: "tabs", role: "group", "aria-label": "Phases" }, phases.map((name) => h("button", {
    type: "button", id: `phase-${name}${side}`, "aria-pressed": String(name === phase), onclick: () => change({ phase: name }) }, shown(name))));
  const shownAttempts = tried.filter((attempt) => attempt.phase === phase);
  return h("section", { class: "panel", "aria-labelledby": `which${side} panel-title${side}`, id: `panel${side}` },
    h("header", null,
      h("h2", { id: `panel-title${side}`, tabindex: -1 }, shown(agent.label), h("span", { class: "soft" }, ` · ${game.roundName} ${place.round}`)),
      state && pill(state.label, state.color), cell?.text && h("b", { class: "cell-text" }, shown(cell.text))),
    h("p", { class: "soft facts" }, shown([...new Set([agent.role, agent.player, agent.framed ? game.framed_label : null])].filter(Boolean).join(" · "))),
    cell?.marks.length ? h("p", { class: "facts" }, cell.marks.map((label) => h("span", { class: "sign" }, signOf(game, label), " ", shown(label)))) : null,
    unheardOf(game, place.agent, place.round),
    tabs,
    shownAttempts.length ? diffChoice(simulation, game, { ...place, phase }, change, side) : note("calm", game.all.length
      ? `This agent was not asked anything in this ${game.roundName}.` : "What was sent and answered in this game is not recorded."),
    shownAttempts.map((attempt) => attemptBlock(attempt, shownAttempts, simulation, game, place)));
}

/** Return what an agent did not hear of a round, struck through; null for nothing. */
function unheardOf(game, agent, round) {
  const left = game.unheard(agent, round);
  return left.length ? h("p", { class: "facts unheard" }, "Left out by its filter: ", left.map((said, at) => [
    at ? ", " : null, h("s", { dir: "auto" }, shown(said))])) : null;
}

/** Return the select that says with what a prompt is compared. */
function diffChoice(simulation, game, place, change, side) {
  const own = before(game, game.tried(place.agent, place.round).find((attempt) => attempt.phase === place.phase));
  const others = game.agents.map((agent, at) => [agent, at])
    .filter(([, at]) => at !== place.agent && game.tried(at, place.round).some((attempt) => attempt.phase === place.phase));
  const options = [
    ["", "nothing"],
    ...(own ? [["prev", `its own prompt before (${game.roundName} ${own.round})`]] : []),
    ...others.map(([agent]) => [`agent:${agent.name}`, `${agent.label} in this ${game.roundName}`]),
    ...partnersOf(simulation).slice(0, 60).map((other) => [`sim:${other.short}`, `same seed: ${nameOf(other)}`]),
  ];
  if (options.length === 1) return null;
  return h("label", { class: "compare" }, "Compare the prompt with ",
    select({ id: `diff${side}`, onchange: (event) => change({ diff: event.target.value }) }, options, place.diff ?? ""));
}

/** Return what the same agent was asked before: the last time in the same phase, or else in any. */
function before(game, attempt) {
  const mine = game.all.filter((one) => one.agent === attempt?.agent);
  const earlier = mine.slice(0, Math.max(0, mine.indexOf(attempt)));
  return earlier.findLast((one) => one.phase === attempt.phase) ?? earlier.at(-1) ?? null;
}

/** Return the attempt with which a prompt is compared, or null. */
async function other(attempt, simulation, game, diff) {
  if (diff === "prev") return before(game, attempt);
  const first = (of, agent) => of.tried(agent, attempt.round).find((one) => one.phase === attempt.phase) ?? null;
  const nameAt = (of, name) => of.agents.findIndex((agent) => agent.name === name);
  if (diff.startsWith("agent:")) return first(game, nameAt(game, diff.slice(6)));
  const paired = diff.startsWith("sim:") ? index.byId.get(diff.slice(4)) : null;
  if (!paired) return null;
  const there = await gameOf(paired);
  return first(there, nameAt(there, game.agents[attempt.agent].name));
}

function attemptBlock(attempt, all, simulation, game, place) {
  const sent = h("div", { class: "sent" }, prompts(attempt, null));
  if (place.diff) {
    other(attempt, simulation, game, place.diff).then(
      (found) => sent.replaceChildren(...prompts(attempt, found ?? "none")),
      (error) => sent.replaceChildren(note("bad", shown(error.message)), ...prompts(attempt, null)));
  }
  const again = all.length > 1;
  return h("article", { class: attempt.failure === null ? "attempt" : "attempt failed" },
    again && h("h3", null, `Attempt ${all.indexOf(attempt) + 1} of ${all.length}`),
    attempt.failure !== null && h("p", { class: "note bad" }, h("b", null, shown(attempt.failure)), attempt.detail ? [": ", shown(attempt.detail)] : null),
    attempt.degenerate && note("warn", `This reply says nothing: ${attempt.degenerate}.`),
    h("h3", { class: "part" }, "Answered"), answer(attempt), factsOf(attempt),
    attempt.reasoning && fold("reasoning", `Reasoning (${number(attempt.reasoning.length)} characters)`, () => prose(attempt.reasoning)),
    h("h3", { class: "part" }, "Was sent"), sent);
}

/** Return the reply: its fields as read, and as it came. */
function answer(attempt) {
  if (attempt.reply === null && attempt.parsed === null) {
    return note("calm", attempt.completionTokens === null ? "No reply is recorded." : "The reply is empty.");
  }
  const read = attempt.parsed !== null ? fields(attempt.parsed) : null;
  if (attempt.reply === null) return read;
  if (read === null) return prose(attempt.reply, { class: "reply" });
  return [read, fold("raw", `As it came (${number(attempt.reply.length)} characters)`, () => prose(attempt.reply, { class: "reply" }))];
}

/** Return what was read from a reply: a line for each field. */
function fields(parsed) {
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) return h("pre", { dir: "auto" }, shown(valueText(parsed)));
  return h("dl", { class: "fields-read" }, Object.entries(parsed).map(([name, value]) => h("div", null,
    h("dt", null, shown(name)), h("dd", { dir: "auto" }, shown(valueText(value))))));
}

function valueText(value) {
  if (typeof value === "string") return value;
  const line = JSON.stringify(value);
  return line.length <= 100 ? line : JSON.stringify(value, null, 1);
}

function factsOf(attempt) {
  const unknown = index.imported; // no file that is imported says these: the record has defaults in their place
  const facts = [
    attempt.promptTokens === null ? null : `${number(attempt.promptTokens)} tokens in`,
    attempt.completionTokens === null ? null : `${number(attempt.completionTokens)} out`,
    attempt.seconds === null || (unknown && attempt.seconds === 0) ? null : `${number(attempt.seconds)} s`,
    attempt.temperature === null || unknown ? null : `temperature ${attempt.temperature}`,
    attempt.finish === null ? null : `ended by ${attempt.finish}`,
    attempt.seed === null || unknown ? null : `seed ${attempt.seed}`,
  ];
  return h("p", { class: "soft facts" }, shown(facts.filter(Boolean).join(" · ")));
}

const SENT = { system: "System", user: "User", sent: "All that was sent" }; // the last only where the two are not all

/** Return what was sent, with what changed against another attempt where there is one. */
function prompts(attempt, against) {
  const nothing = against === "none" ? [note("calm", "There is nothing to compare this prompt with.")] : [];
  const parts = Object.keys(SENT).filter((name) => attempt[name] !== null).map((name) => {
    const text = attempt[name];
    const old = against && against !== "none" ? against[name] : null;
    const changed = old !== null && old !== text;
    const title = `${SENT[name]} (${number(text.length)} characters${old === null ? "" : changed ? ", changed" : ", the same"})`;
    return fold(name, title, () => (old === null ? prose(text) : diffBlock(old, text)), changed);
  });
  return parts.length ? [...nothing, ...parts] : [note("calm", "What was sent is not recorded.")];
}

/** Return a part that opens; it is filled when it first does, and remembered as open for the next cell. */
function fold(name, title, content, open = false) {
  const node = h("details", { class: `fold ${name}`, open: open || unfolded[name] });
  const fill = () => node.open && node.childElementCount === 1 && node.append(content());
  node.append(h("summary", null, title));
  node.addEventListener("toggle", fill);
  node.firstChild.addEventListener("click", () => { unfolded[name] = !node.open; });
  fill();
  return node;
}
