// Texts as nodes: what prints nothing or turns the text around is shown, and numbers, colors and notes alike.

// Controls, format characters (directions, zero width), surrogates, private use, and letters that show nothing.
const ODD = /(?![\n\t])([\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u034f\u115f\u1160\u3164\uffa0])\1*/gu;
function codeOf(character) {
  return character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** Return nodes that show a text, with a small box for each character that prints nothing or moves others. */
function shown(text) {
  const nodes = [];
  let end = 0;
  for (const found of String(text).matchAll(ODD)) {
    const code = codeOf(found[1]);
    const times = found[0].length / found[1].length;
    const name = `U+${code}${times > 1 ? `, ${times} times` : ""}`;
    nodes.push(text.slice(end, found.index), h("span", { class: "odd", role: "img", "aria-label": name, title: name },
      times > 1 ? `${code}×${times}` : code));
    end = found.index + found[0].length;
  }
  nodes.push(String(text).slice(end));
  return nodes.filter((node) => node !== "");
}

/** Return a text as one line for an attribute: characters that print nothing become their codes. */
function plain(text) {
  return String(text).replace(ODD, (_, character) => `[U+${codeOf(character)}]`);
}

/** Return a block of text as it was sent or answered. */
function prose(text, props) {
  return h("pre", { dir: "auto", ...props }, shown(text));
}

/** Return a number with separators; null is a dash. */
function number(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

function counted(many, kind) {
  return `${number(many)} ${kind}${many === 1 ? "" : "s"}`;
}

/** Return a name such as never_agreed as words; other texts as they are. */
function spaced(text) {
  return /^[a-z0-9_]+$/.test(text) ? text.replaceAll("_", " ") : text;
}

/** Return a small label with its color: an outcome or a state. */
function pill(label, color) {
  return h("span", { class: "pill", style: { "--c": color } }, shown(label));
}

function note(kind, ...children) {
  return h("p", { class: `note ${kind}` }, ...children);
}

/** Say something to a screen reader, without moving the focus. */
function announce(text) {
  document.getElementById("live").textContent = plain(text);
}

/** Return a select; `options` are [value, label] pairs. */
function select(props, options, chosen) {
  return h("select", props, options.map(([value, label]) => h("option", { value, selected: value === chosen }, plain(label))));
}
