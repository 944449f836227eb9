// A long list is read page by page: a page is the cursor that the page before told, and two buttons walk from one to the next.

import { h } from "./dom.js";

/** Return pages that begin with the first one; `again` is called whenever another one is wanted. */
export function paging(again) {
  let cursors = [""];
  const forth = (next) => { if (cursors.at(-1) !== next) cursors.push(next); again(); }; // once, however often it is pressed
  const back = () => { if (cursors.length > 1) cursors.pop(); again(); };
  return {
    /** What to ask the node for. */
    cursor: () => cursors.at(-1),
    /** Which page that is, from 1. */
    number: () => cursors.length,
    /** Begin with the first page again. */
    restart() { cursors = [""]; },
    /** Return the two buttons below a page: its number, and what it told of the next one, or nothing. */
    buttons: (number, next) => [
      h("button", { type: "button", "data-key": "previous", disabled: number === 1, onclick: back }, "Before ", h("kbd", {}, "p")),
      h("button", { type: "button", "data-key": "next", disabled: !next, onclick: () => forth(next) }, "Next ", h("kbd", {}, "n")),
    ],
  };
}

/** Return the keys that press those buttons within an element. */
export const pagingKeys = (foot) => [
  ["n", "next page", () => foot.querySelector("[data-key=next]")?.click()],
  ["p", "page before", () => foot.querySelector("[data-key=previous]")?.click()],
];
