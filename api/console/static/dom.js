// Elements are made here and nowhere else, and whatever comes from outside becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element; children are nodes, texts, numbers, or lists of them, and null and false are left out. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an element of a picture. */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  element.append(...flat(children));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked") element[name] = value;
  else if (name.startsWith("--")) element.style.setProperty(name, value);
  else element.setAttribute(name, value === true ? "" : String(value));
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Put nodes in the place of what an element holds; whoever had the focus, by its data-key, has it again. */
export function swap(element, ...nodes) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...flat(nodes));
  if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

const AGES_MS = 10_000;

/** Return a function that draws into an element: when what it is given has changed, or lengths of time have aged. */
export function redrawn(element, draw) {
  let last;
  return (...given) => {
    const now = `${Math.floor(Date.now() / AGES_MS)} ${JSON.stringify(given)}`;
    if (now === last) return;
    last = now;
    swap(element, draw(...given));
  };
}
