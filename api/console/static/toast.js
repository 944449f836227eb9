// A toast says that something was done; it goes away by itself and is read aloud.

import { h } from "./dom.js";

const STAYS_MS = 6_000;

/** Say that something was done. */
export function toast(text) {
  const line = h("p", {}, text);
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), STAYS_MS);
}
