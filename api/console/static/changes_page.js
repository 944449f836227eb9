// All changes by operators and jobs, of every group and of the cluster, newest first.

import { read } from "./api.js";
import { changesTable } from "./changes_list.js";
import { h, redrawOnChange, replaceContent } from "./dom.js";
import { pageKeys } from "./keys.js";
import { paging, pagingKeys } from "./paging.js";
import { poll } from "./poll.js";

const EVERY_MS = 5_000;
const ROWS = 50;

/** Show all changes. */
export function changesPage(main) {
  const table = h("div", {}, h("p", { class: "empty-state" }, "Loading…"));
  const foot = h("div", { class: "pagination" });
  replaceContent(main, h("h1", {}, "Changes"), table, foot);
  const draw = redrawOnChange(table, (changes) => changesTable(changes, () => poller.now(), { withGroup: true }));
  const pages = paging(() => poller.now());
  const drawFoot = redrawOnChange(foot, (next, number) => [h("span", {}, `Page ${number}`), pages.buttons(number, next)]);
  const poller = poll(load, EVERY_MS);
  pageKeys(pagingKeys(foot));

  async function load() {
    const number = pages.number();
    const shown = await read("/v1/changes", { limit: ROWS, cursor: pages.cursor() });
    draw(shown.changes);
    drawFoot(shown.next_cursor, number);
  }

  return { stop: poller.stop };
}
