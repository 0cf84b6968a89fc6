// The address after "#": what is looked at, so that a view can be sent as a link.

/** Return the parts of the path and the query of the address. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean), query: new URLSearchParams(query) };
}

/** Return the address of a page; `query` holds [name, value] pairs, of which null and "" are left out. */
function link(path, query = []) {
  const text = new URLSearchParams([...query].filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `#/${path.map(encodeURIComponent).join("/")}${text.size ? "?" : ""}${text}`;
}

/** Return a query with other values; null, undefined and "" take a name out. */
function changed(query, changes) {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  return next;
}
