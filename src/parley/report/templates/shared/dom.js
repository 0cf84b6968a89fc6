// Builds DOM nodes. Text enters as text nodes only: nothing that a model wrote is ever read as HTML.

/**
 * Return a new element. `props` are attributes; a function is a listener of the event after "on"; `style` holds CSS
 * properties. Children are nodes or texts, nested in arrays as one likes; null, undefined and false are left out.
 */
function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, part] of Object.entries(value)) node.style.setProperty(key, part);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
