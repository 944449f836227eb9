// Keyboard shortcuts: one table of bindings, which the help lists.

import { isOpen, sheet } from "./dialog.js";
import { h } from "./dom.js";

const SEQUENCE_MS = 1_200;
const SETTING = "muster.keys";
const globalBindings = [
  ["g g", "groups", () => (location.hash = "#/")],
  ["g t", "topics", () => (location.hash = "#/topics")],
  ["g o", "overview", () => (location.hash = "#/overview")],
  ["g r", "reports", () => (location.hash = "#/reports")],
  ["g m", "maintenance", () => (location.hash = "#/maintenance")],
  ["g c", "changes", () => (location.hash = "#/changes")],
  ["g s", "settings", () => (location.hash = "#/settings")],
  ["?", "keyboard shortcuts", help],
];
let pageBindings = [];
let prefix = "";
let prefixAt = 0;

/** Set the bindings of the current page: a list of [key, description, function]. */
export function pageKeys(bindings) {
  pageBindings = bindings;
}

/** Add bindings for every page. */
export function globalKeys(bindings) {
  globalBindings.splice(-1, 0, ...bindings);
}

const areOn = () => localStorage.getItem(SETTING) !== "off";

/** Show the list of shortcuts. */
export function help() {
  const rows = (bindings) => bindings.map(([key, description]) =>
    h("tr", {}, h("td", {}, key.split(" ").map((each) => [h("kbd", {}, each), " "])), h("td", {}, description)));
  sheet("Keyboard shortcuts", h("table", { class: "keys" }, h("tbody", {}, rows(pageBindings), rows(globalBindings),
    rows([["Tab", "next button or field"], ["Esc", "leave the field or close the dialog"]]))),
  h("label", {}, h("input", { type: "checkbox", checked: areOn(), onchange: ({ target }) => localStorage.setItem(SETTING, target.checked ? "on" : "off") }), " Keys without a modifier"));
}

/** Return bindings that move the focus through the rows within an element, and open one. */
export function rowKeys(element) {
  const rows = () => [...element.querySelectorAll("[data-row]")];
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
    ["k", "previous row", () => move(-1)],
    ["Enter", "open the row", () => at() >= 0 && (location.hash = rows()[at()].dataset.row)],
  ];
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isOpen()) return;
  const isTyping = event.target.matches("input, select, textarea");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key.length === 1 && !areOn()) return; // Escape and Enter remain
  if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
  const sequence = event.timeStamp - prefixAt < SEQUENCE_MS ? `${prefix} ${event.key}`.trim() : event.key;
  const found = lookUp(sequence) ?? lookUp(event.key);
  if (found) {
    event.preventDefault();
    prefix = "";
    found[2]();
  } else {
    prefix = event.key;
    prefixAt = event.timeStamp;
  }
});

function lookUp(sequence) {
  return [...pageBindings, ...globalBindings].find(([key]) => key === sequence);
}
