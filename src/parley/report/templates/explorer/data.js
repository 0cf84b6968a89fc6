// The index of all simulations, which the page holds, and the files of conditions, loaded when they are opened.

let index = null; // as written, and with: simulations as a list, byId
const files = new Map(); // path -> promise of its contents, the latest used last
const MOST_FILES = 8;
let arrived = null; // what the script that ran last has handed over

globalThis.parleyData = (name, packed) => {
  arrived = packed;
};

// Where a browser has Trusted Types, the policy of the page lets nothing else name a script.
const scripts = globalThis.trustedTypes?.createPolicy("parley", { createScriptURL: allowed }) ?? { createScriptURL: allowed };

function allowed(path) {
  if (!/^data\/[\w-]+\.js$/.test(path)) throw new TypeError(`not a data file of this page: ${plain(path)}`);
  return path;
}

/** Return the contents of a data file: its script hands them over, which works from a file too. */
function load(path) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const failed = (why) => reject(new Error(`${plain(path)} ${why}. Copy the whole folder "view", or write it again with parley view.`));
    script.onerror = () => failed("could not be loaded");
    script.onload = () => {
      const packed = arrived;
      arrived = null;
      script.remove();
      if (packed === null) failed("holds no data");
      else unpack(packed).then(resolve, () => failed("is damaged"));
    };
    script.src = scripts.createScriptURL(path);
    document.head.append(script);
  });
}

/** Return what raw-deflated JSON in base64 says. */
function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).json();
}

/** Set the index: its columns become a list of simulations. */
function setIndex(read) {
  const columns = read.simulations;
  const outcomes = new Map(read.outcomes.map((outcome) => [outcome.name, outcome]));
  const simulations = columns.id.map((id, at) => ({
    ...Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[at]])),
    at,
    short: id.slice(0, 8),
    condition: read.conditions[columns.condition[at]],
  }));
  const byId = new Map();
  for (const simulation of simulations) byId.set(simulation.id, simulation).set(simulation.short, simulation);
  index = { ...read, simulations, byId, outcomeByName: outcomes };
}

/** Return how an outcome is called and colored; one that is damaged has none. */
function outcomeOf(simulation) {
  if (simulation.damaged) return { label: "damaged record", color: "#9a9a9a" };
  return index.outcomeByName.get(simulation.outcome) ?? { label: simulation.outcome ?? "no outcome", color: "#9a9a9a" };
}

/** Return what a person calls a simulation. */
function nameOf(simulation) {
  const repeat = simulation.repeat ? `, repeat ${simulation.repeat}` : "";
  return `${simulation.condition.label} · seed ${simulation.seed}${repeat}`;
}

/** Return the simulations of other conditions that are a pair with this one. */
function partnersOf(simulation) {
  return index.simulations.filter((other) => other.pair === simulation.pair && other.id !== simulation.id);
}

function filePart(path) {
  const found = files.get(path) ?? load(path);
  files.delete(path);
  files.set(path, found);
  found.catch(() => files.delete(path));
  if (files.size > MOST_FILES) files.delete(files.keys().next().value);
  return found;
}

/** Return the game of a simulation, from the file of its condition. Rejects with an error that says what is missing. */
async function gameOf(simulation) {
  const path = simulation.condition.parts[simulation.part];
  const part = await filePart(path);
  const raw = part.simulations.find((one) => one.id === simulation.id);
  if (raw === undefined) throw new Error(simulation.damaged ?? "The messages of this simulation are not in its file.");
  if (raw.damaged) throw new Error(raw.damaged);
  return readGame(part, raw);
}
