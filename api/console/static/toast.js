// Toasts: short confirmations that disappear after a few seconds; screen readers announce them.

import { h } from "./dom.js";

const VISIBLE_MS = 6_000;

/** Show a confirmation. */
export function toast(text) {
  const line = h("p", {}, text);
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), VISIBLE_MS);
}
