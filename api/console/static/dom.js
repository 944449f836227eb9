// Element creation: all content becomes text nodes, never markup. No other module creates elements.

const SVG = "http://www.w3.org/2000/svg";
/** Control characters, and invisible ones, except those within emoji: those that reorder text would also reverse the numbers beside a name. */
const HIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\u00ad\u200b\u2060-\u2064\ufeff\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;

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
    .map((child) => (child instanceof Node ? child : visible(String(child))));
}

/** Return a text with � for HIDDEN characters. */
export const visible = (text) => text.replace(HIDDEN, "�");

/** Return the head of a table, with a title and a class for each column. */
export const tableHead = (titles) => h("thead", {}, h("tr", {}, titles.map(([title, kind]) => h("th", { scope: "col", class: kind }, title))));

/** Return a row of a table that opens an address, unless text was selected in it. */
export const linkRow = (to, attributes, ...cells) =>
  h("tr", { tabindex: "-1", "data-row": to, ...attributes, onclick: (event) => event.target.closest("a") || !getSelection().isCollapsed || (location.hash = to) }, cells);

/** Replace an element's content; the focus returns to the same element, and the same text stays selected. */
export function replaceContent(element, ...nodes) {
  const focus = focusIn(element);
  const select = selectionIn(element);
  element.replaceChildren(...flat(nodes));
  focus();
  select();
}

/** Return the element with a data-key within another one, or null. */
export const withKey = (element, key) => element.querySelector(`[data-key="${CSS.escape(key)}"]`);

/** Return a function that focuses what is now focused in an element: the element with its data-key, or that of the same text at its place within the next one around it that has one. */
function focusIn(element) {
  const focused = document.activeElement;
  if (focused === element || !element.contains(focused)) return () => {};
  const keyed = focused.closest("[data-key]");
  const around = keyed !== element && element.contains(keyed) ? keyed : null;
  const path = pathTo(around ?? element, focused);
  return () => {
    const found = path.reduce((node, index) => node?.childNodes[index], around ? withKey(element, around.dataset.key) : element);
    if (around === focused || found?.textContent === focused.textContent) found?.focus?.({ preventScroll: true });
  };
}

/** Return a function that selects the text which is now selected in an element, if it is still at its place. */
function selectionIn(element) {
  const selection = getSelection();
  const text = selection.toString();
  if (!text || !element.contains(selection.anchorNode) || !element.contains(selection.focusNode)) return () => {};
  const ends = [[selection.anchorNode, selection.anchorOffset], [selection.focusNode, selection.focusOffset]].map(([node, offset]) => ({ path: pathTo(element, node), offset }));
  return () => {
    const nodes = ends.map(({ path }) => path.reduce((node, index) => node?.childNodes[index], element));
    if (!nodes.every((node, index) => node && ends[index].offset <= (node.length ?? node.childNodes.length))) return;
    selection.setBaseAndExtent(nodes[0], ends[0].offset, nodes[1], ends[1].offset);
    if (selection.toString() !== text) selection.removeAllRanges();
  };
}

/** Return the indexes by which childNodes lead from an element to a node. */
function pathTo(element, node) {
  if (node === element) return [];
  return [...pathTo(element, node.parentNode), [...node.parentNode.childNodes].indexOf(node)];
}

const REDRAW_MS = 10_000;
/** Redraws that wait until no button of the pointer is down: a click needs the same element from its press to its release. */
const waiting = new Set();
let isPressed = false;

addEventListener("pointerdown", () => (isPressed = true), true);
for (const name of ["pointerup", "pointercancel", "dragend", "keydown"]) addEventListener(name, release, true);
addEventListener("pointermove", (event) => event.buttons || release(), true); // a menu may have taken the release

function release() {
  if (!isPressed) return;
  isPressed = false;
  setTimeout(() => waiting.forEach((redraw) => redraw())); // after the click
}

/**
 * Return a function that redraws an element if its arguments have changed, or after REDRAW_MS, since durations have aged; while a button of the pointer is down, once it is released.
 * A live region does not age: screen readers would announce it again.
 */
export function redrawOnChange(element, draw, { ages = true } = {}) {
  let last;
  let given;
  function redraw() {
    if (isPressed) return waiting.add(redraw);
    waiting.delete(redraw);
    const now = `${ages && Math.floor(Date.now() / REDRAW_MS)} ${JSON.stringify(given)}`;
    if (now === last) return;
    last = now;
    replaceContent(element, draw(...given));
  }
  return (...next) => {
    given = next;
    redraw();
  };
}
