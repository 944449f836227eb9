// Everything that was changed by hand or by a job, the newest first, wherever it was.

import { read } from "./api.js";
import { changesTable } from "./changes_list.js";
import { h, redrawn, swap } from "./dom.js";
import { pageKeys } from "./keys.js";
import { poll } from "./poll.js";

const EVERY_MS = 5_000;
const ROWS = 50;

/** Show all changes. */
export function changesPage(main) {
  const cursors = [""];
  const table = h("div", {}, h("p", { class: "blank" }, "Loading…"));
  const foot = h("div", { class: "foot" });
  swap(main, h("h1", {}, "Changes"), table, foot);
  const draw = redrawn(table, (changes) => changesTable(changes, () => poller.now(), { withGroup: true }));
  const drawFoot = redrawn(foot, pages);
  const poller = poll(load, EVERY_MS);
  pageKeys([
    ["n", "next page", () => foot.querySelector("[data-key=next]")?.click()],
    ["p", "page before", () => foot.querySelector("[data-key=previous]")?.click()],
  ]);

  async function load() {
    const shown = await read("/v1/changes", { limit: ROWS, cursor: cursors.at(-1) });
    draw(shown.changes);
    drawFoot(shown.next_cursor, cursors.length);
  }

  function pages(nextCursor, number) {
    return [
      h("span", {}, `Page ${number}`),
      h("button", { type: "button", "data-key": "previous", disabled: number === 1, onclick: () => { cursors.pop(); poller.now(); } }, "Before ", h("kbd", {}, "p")),
      h("button", { type: "button", "data-key": "next", disabled: !nextCursor, onclick: () => { cursors.push(nextCursor); poller.now(); } }, "Next ", h("kbd", {}, "n")),
    ];
  }

  return { stop: poller.stop };
}
