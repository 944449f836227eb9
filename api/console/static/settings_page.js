// The cluster's settings, which are the defaults of every group; a change is effective on every node within one lease
// renewal.

import { read } from "./api.js";
import { h, redrawOnChange, replaceContent } from "./dom.js";
import { poll } from "./poll.js";
import { settingsTable } from "./settings_section.js";

const EVERY_MS = 5_000;

/** Show the cluster's settings. */
export function settingsPage(main) {
  const table = h("div", {}, h("p", { class: "empty-state" }, "Loading…"));
  replaceContent(main, h("div", { class: "row spread" }, h("h1", {}, "Settings"), h("p", { class: "muted" }, "Defaults for every group. A group’s own settings are on its page.")), table);
  const draw = redrawOnChange(table, (values) => settingsTable(null, values, () => poller.now()));
  const poller = poll(async () => draw((await read("/v1/config")).values), EVERY_MS);
  return { stop: poller.stop };
}
