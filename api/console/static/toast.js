// Toasts: short confirmations that disappear after some seconds; screen readers announce them.

import { h } from "./dom.js";

const VISIBLE_MS = 6_000;
const VISIBLE_WITH_BUTTON_MS = 20_000;

/** Show a confirmation; `undo` adds a button that calls it. */
export function toast(text, undo) {
  const button = undo && h("button", { type: "button", onclick: () => { line.remove(); undo(); } }, "Undo…");
  const line = h("p", {}, text, " ", button);
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), undo ? VISIBLE_WITH_BUTTON_MS : VISIBLE_MS);
}
