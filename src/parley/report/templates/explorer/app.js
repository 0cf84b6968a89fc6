// Starts the page: reads the index, shows what the address says, listens to keys.

let page = null;

function show() {
  page?.end?.();
  const { path, query } = route();
  const [kind = "", ...ids] = path;
  page = pageOf(kind, ids, query);
  document.getElementById("main").replaceChildren(page);
  document.title = `${kind && ids[0] ? `${ids.map((id) => id.slice(0, 8)).join(" and ")} – ` : ""}${plain(index.title)}`;
  const toList = document.getElementById("nav-list");
  if (kind) toList.removeAttribute("aria-current");
  else toList.setAttribute("aria-current", "page");
  toList.href = kind ? lastList : "#/";
  page.start?.();
}

/** Show the page of an address that the reader came to: the list at the game that was read last. */
function arrive() {
  show();
  const last = document.getElementById(lastGame);
  if (last) last.scrollIntoView({ block: "center" });
  else scrollTo(0, 0);
}

/** Show the list by another query in the place of this address. */
function goTo(query) {
  history.replaceState(null, "", link([], query));
  redraw();
}

/** Draw the page anew, or a part of it; the focus stays on what has the same id. */
function redraw(draw = show) {
  const { id, selectionStart: caret } = document.activeElement;
  draw();
  const again = document.getElementById(id);
  again?.focus({ preventScroll: true });
  if (typeof caret === "number") again?.setSelectionRange(caret, caret);
}

/**
 * Return the page of an address, a node with what it has of: start and end (it is shown, it goes), back and arrow (of the keys),
 * scrolled, and all (draws what is still missing, for a printer).
 */
function pageOf(kind, ids, query) {
  if (kind === "") return listPage(query);
  const simulations = ids.map(simulationOf);
  const missing = ids.find((_, at) => simulations[at] === null);
  if (missing !== undefined) return lost(`There is no simulation ${missing} in this study.`);
  if (kind === "game" && simulations.length === 1) return gamePage(simulations, query);
  if (kind === "read" && simulations.length === 1) return readPage(simulations[0]);
  if (kind === "compare" && simulations.length === 2) return gamePage(simulations, query);
  return lost("This address leads nowhere.");
}

function lost(text) {
  return h("div", { class: "page" }, h("div", { class: "empty" }, h("p", null, shown(text)), h("a", { class: "button", href: "#/" }, "All simulations")));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writes = event.target.closest?.("input:not([type=checkbox]), select");
  if (event.key === "Escape") {
    if (writes) writes.blur();
    else if (!page.back?.() && route().path.length) location.hash = lastList;
  } else if (event.key.startsWith("Arrow") && page.arrow && event.target === document.body) {
    event.preventDefault();
    page.arrow();
  }
}

let lastList = "#/"; // to which Escape goes back

function start() {
  setIndex(JSON.parse(document.getElementById("index").textContent));
  document.body.append(
    h("header", { class: "top" }, h("a", { class: "skip", href: "#/", onclick: (event) => { event.preventDefault(); document.getElementById("main").focus(); } }, "To the content"),
      h("strong", null, shown(index.title)), h("span", { class: "soft" }, shown(`${index.study} · ${index.game}`)), h("span", { class: "grow" }),
      h("nav", { id: "nav", "aria-label": "Pages" }, h("a", { href: "#/", id: "nav-list" }, "Simulations"))),
    h("main", { id: "main", tabindex: -1 }), h("p", { id: "live", class: "sr", role: "status", "aria-live": "polite" }),
    h("footer", { class: "soft" }, shown(`Parley ${index.version} · written ${index.written} · ${counted(index.simulations.length, "simulation")}`)));
  addEventListener("hashchange", (event) => {
    const before = new URL(event.oldURL).hash;
    if (/^#?\/?(\?|$)/.test(before)) lastList = before || "#/";
    arrive();
  });
  addEventListener("keydown", onKey);
  addEventListener("beforeprint", () => page.all?.());
  addEventListener("scroll", () => page.scrolled?.(), { passive: true });
  arrive();
}

addEventListener("DOMContentLoaded", start);
