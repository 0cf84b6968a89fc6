// One game, as its data file says it, in a form that pages can ask.

const ATTEMPT = [
  "round", "phase", "agent", "attempt", "system", "user", "reply", "parsed", "failure", "detail", "promptTokens",
  "completionTokens", "seconds", "seed", "temperature", "finish", "reasoning", "degenerate", "sent",
];
const TEXTS = ["system", "user", "reply", "reasoning", "sent"];
const GLYPHS = "★◆▲●✚■▼✦";
const SIGNS = new Map([["no usable reply", { glyph: "✕", kind: "bad" }], ["asked again", { glyph: "↻", kind: "again" }]]); // as matrix.py calls them

/** Return a game: agents, rounds, what stands in each cell, and the attempts behind it. */
function readGame(part, raw) {
  const attempts = raw.attempts.map((row) => {
    const attempt = Object.fromEntries(ATTEMPT.map((name, at) => [name, row[at] ?? null]));
    for (const name of TEXTS) attempt[name] = attempt[name] === null ? null : textOf(part, attempt[name]);
    if (attempt.parsed === true) attempt.parsed = JSON.parse(attempt.reply);
    if (attempt.sent !== null) attempt.sent = transcript(attempt.sent);
    return attempt;
  });
  const byCell = Map.groupBy(attempts, (attempt) => `${attempt.agent},${attempt.round}`);
  const states = new Map(part.states.map((state) => [state.name, state]));
  const cells = new Map(raw.cells.map(([agent, round, state, text, marks]) => [`${agent},${round}`, {
    state: state === null ? null : states.get(state) ?? { name: state, label: state }, text: text === null ? "" : textOf(part, text), marks }]));
  const unheard = new Map(raw.unheard.map(([agent, round, said]) => [`${agent},${round}`, said.map((at) => textOf(part, at))]));
  const labels = [...new Set([...cells.values()].flatMap((cell) => cell.marks))];
  const own = labels.filter((label) => !SIGNS.has(label));
  return {
    ...raw,
    roundName: raw.round_name,
    states: part.states.filter(({ name }) => raw.cells.some(([, , state]) => state === name)), // those that occur
    hasUnheard: unheard.size > 0,
    unheard: (agent, round) => unheard.get(`${agent},${round}`) ?? [], // what was said to it
    at: (agent, round) => cells.get(`${agent},${round}`) ?? null,
    tried: (agent, round) => byCell.get(`${agent},${round}`) ?? [],
    all: attempts,
    signs: new Map(labels.map((label) => [label, SIGNS.get(label) ?? { glyph: GLYPHS[own.indexOf(label) % GLYPHS.length], kind: "mark" }])),
    groups: groupsOf(raw.agents),
    hears: (agent) => raw.agents[agent].hears ?? null, // null where nothing is known
  };
}

/** Return requests, which are JSON, as a text: each message under its role, and what came back. A record may hold anything. */
function transcript(sent) {
  try {
    const requests = JSON.parse(sent);
    return requests.flatMap((request, at) => [
      ...(requests.length > 1 ? [`--- Request ${at + 1} of ${requests.length} ---`] : []),
      ...[...request.messages, ["reply", request.text]].filter(([, text]) => text !== null).map(([role, text]) => `[${role}]\n${text}`),
    ]).join("\n\n");
  } catch {
    return sent;
  }
}

/** Return in words what plays an agent. */
function groupOf(agent) {
  return [agent.role, agent.player].filter(Boolean).join(" · ");
}

/** Return the groups of agents, in words; none where their roles tell them apart. At most 20 have a sign. */
function groupsOf(agents) {
  const groups = [...new Set(agents.map(groupOf))];
  return groups.length > new Set(agents.map((agent) => agent.role)).size ? groups.slice(0, 20) : [];
}

/** Return a text of a data file: as it stands, or its lines, of which each stands there once. */
function textOf(part, at) {
  const text = part.texts[at];
  return typeof text === "string" ? text : text.map((line) => part.texts[line]).join("\n");
}

/** Return what a cell says in words: for a screen reader, and as its title. */
function cellWords(game, agent, round) {
  const cell = game.at(agent, round);
  const words = [`${game.agents[agent].label}, ${game.roundName} ${round}`];
  if (cell === null) return `${words[0]}: nothing`;
  if (cell.text) words.push(cell.text);
  if (cell.state) words.push(cell.state.label);
  words.push(...cell.marks);
  return plain(`${words[0]}: ${words.slice(1).join("; ")}`);
}

/** Return what an agent did in a round, by what the game shows of it: the words of its reasons may differ as they like. */
function deedOf(game, agent, round) {
  const cell = game.at(agent, round);
  return cell === null ? null : JSON.stringify([cell.state?.name, cell.text]);
}

/** Return whether an agent of a game did something else in a round than the agent of the same name in another game. */
function differs(game, other, agent, round) {
  const there = other.agents.findIndex((one) => one.name === game.agents[agent].name);
  return deedOf(game, agent, round) !== (there < 0 ? null : deedOf(other, there, round));
}

/** Return the first round in which two games part: an agent did something else. null if they are alike to the end. */
function partingRound(one, other) {
  const rounds = [...new Set([...one.rounds, ...other.rounds])].sort((a, b) => a - b);
  const parts = (game, beside, round) => game.agents.some((_, agent) => differs(game, beside, agent, round));
  return rounds.find((round) => parts(one, other, round) || parts(other, one, round)) ?? null;
}
