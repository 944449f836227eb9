// Element creation: all content becomes text nodes, never markup. No other module creates elements.

const SVG = "http://www.w3.org/2000/svg";
/** Control characters, and invisible ones: those that reorder text would also reverse the numbers beside a name. */
const HIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\u00ad\u200b\u2060-\u2064\ufeff]/gu;

/** Return a new element; children are nodes, texts, numbers, or lists of them; null, undefined and false are omitted. In texts HIDDEN characters become �. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return a new SVG element. */
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
    .map((child) => (child instanceof Node ? child : String(child).replace(HIDDEN, "�")));
}

/** Return the head of a table, with a title and a class for each column. */
export const tableHead = (titles) => h("thead", {}, h("tr", {}, titles.map(([title, kind]) => h("th", { scope: "col", class: kind }, title))));

/** Return a row of a table that opens an address. */
export const linkRow = (to, attributes, ...cells) =>
  h("tr", { tabindex: "-1", "data-row": to, ...attributes, onclick: (event) => event.target.closest("a") || (location.hash = to) }, cells);

/** Replace an element's content; the focus returns to the element with the same data-key. */
export function replaceContent(element, ...nodes) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...flat(nodes));
  if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

const REDRAW_MS = 10_000;

/** Return a function that redraws an element if its arguments have changed, or after REDRAW_MS, since durations have aged. */
export function redrawOnChange(element, draw) {
  let last;
  return (...given) => {
    const now = `${Math.floor(Date.now() / REDRAW_MS)} ${JSON.stringify(given)}`;
    if (now === last) return;
    last = now;
    replaceContent(element, draw(...given));
  };
}
