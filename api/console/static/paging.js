// Cursor pagination: each page’s response has the cursor of the next page; two buttons move between pages.

import { h } from "./dom.js";

/** Return pagination state, starting at the first page, or at the one from which the user comes back; `again` is called to load another page. */
export function paging(again) {
  let cursors = history.state?.cursors ?? [""];
  const turn = (turned) => { cursors = turned; history.replaceState({ cursors }, ""); again(); };
  const forth = (next) => turn(cursors.at(-1) === next ? cursors : [...cursors, next]); // repeated clicks add one page only
  const back = () => turn(cursors.length > 1 ? cursors.slice(0, -1) : cursors);
  return {
    /** Return the cursor of the current page. */
    cursor: () => cursors.at(-1),
    /** Return the number of the current page, from 1. */
    number: () => cursors.length,
    /** Return to the first page. */
    restart() { cursors = [""]; },
    /** Return the two buttons below a page, given its number, and the cursor of the next page or null. */
    buttons: (number, next) => [
      h("button", { type: "button", "data-key": "previous", disabled: number === 1, onclick: back }, "Previous ", h("kbd", {}, "p")),
      h("button", { type: "button", "data-key": "next", disabled: !next, onclick: () => forth(next) }, "Next ", h("kbd", {}, "n")),
    ],
  };
}

/** Return bindings that press the two buttons within an element. */
export const pagingKeys = (foot) => [
  ["n", "next page", () => foot.querySelector("[data-key=next]")?.click()],
  ["p", "previous page", () => foot.querySelector("[data-key=previous]")?.click()],
];
