// Keys do what the mouse does: one table says which key does what, and the help is printed from it.

import { isOpen, sheet } from "./dialog.js";
import { h } from "./dom.js";

const SEQUENCE_MS = 1_200;
const everywhere = [
  ["g g", "groups", () => (location.hash = "#/")],
  ["g m", "maintenance", () => (location.hash = "#/maintenance")],
  ["g c", "changes", () => (location.hash = "#/changes")],
  ["g s", "settings", () => (location.hash = "#/settings")],
  ["?", "this help", help],
];
let here = [];
let began = "";
let beganAt = 0;

/** Say what keys do on the page that is shown: a list of [key, what it does, function]. */
export function pageKeys(bindings) {
  here = bindings;
}

/** Say what keys do on every page, beside those that move between pages. */
export function alwaysKeys(bindings) {
  everywhere.splice(-1, 0, ...bindings);
}

/** Show what keys do. */
export function help() {
  const rows = (bindings) => bindings.map(([key, what]) =>
    h("tr", {}, h("td", {}, key.split(" ").map((each) => [h("kbd", {}, each), " "])), h("td", {}, what)));
  sheet("Keys", h("table", { class: "keys" }, h("tbody", {}, rows(here), rows(everywhere),
    rows([["Tab", "to the next button or field"], ["Esc", "out of a field or a dialogue"]]))));
}

/** Return the keys that move a mark through rows and open one; `rows` gives them, `open` is told which. */
export function rowKeys(rows, open) {
  const at = () => rows().indexOf(document.activeElement.closest?.("[data-row]"));
  const move = (step) => {
    const all = rows();
    const from = at();
    const to = from < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(from + step, 0), all.length - 1);
    all[to]?.focus();
    all[to]?.scrollIntoView({ block: "nearest" });
  };
  return [
    ["j", "next row", () => move(1)],
    ["k", "row before", () => move(-1)],
    ["Enter", "open the row", () => at() >= 0 && open(rows()[at()])],
  ];
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isOpen()) return;
  const isTyping = event.target.matches("input, select, textarea");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
  const sequence = event.timeStamp - beganAt < SEQUENCE_MS ? `${began} ${event.key}`.trim() : event.key;
  const found = lookUp(sequence) ?? lookUp(event.key);
  if (found) {
    event.preventDefault();
    began = "";
    found[2]();
  } else {
    began = event.key;
    beganAt = event.timeStamp;
  }
});

function lookUp(sequence) {
  return [...here, ...everywhere].find(([key]) => key === sequence);
}
