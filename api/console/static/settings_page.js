// Settings of every group that sets none of its own, and of the whole cluster; a change here is in force on every node
// within one renewal.

import { read } from "./api.js";
import { h, redrawn, swap } from "./dom.js";
import { poll } from "./poll.js";
import { settingsTable } from "./settings_section.js";

const EVERY_MS = 5_000;

/** Show the cluster's settings. */
export function settingsPage(main) {
  const table = h("div", {}, h("p", { class: "blank" }, "Loading…"));
  swap(main, h("div", { class: "row spread" }, h("h1", {}, "Settings"), h("p", { class: "faint" }, "For every group that sets none of its own; a group’s are on its page.")), table);
  const draw = redrawn(table, (values) => settingsTable(null, values, () => poller.now()));
  const poller = poll(async () => draw((await read("/v1/config")).values), EVERY_MS);
  return { stop: poller.stop };
}
