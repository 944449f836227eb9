// The cluster's settings, which are the defaults of every group, and the nodes that have not confirmed a change.

import { read } from "./api.js";
import { h, redrawOnChange, replaceContent } from "./dom.js";
import { poll } from "./poll.js";
import { settingsTable } from "./settings_section.js";

const EVERY_MS = 5_000;

/** Show the cluster's settings. */
export function settingsPage(main) {
  const table = h("div", {}, h("p", { class: "empty-state" }, "Loading…"));
  replaceContent(main, h("div", { class: "row spread" }, h("h1", {}, "Settings"), h("p", { class: "muted" }, "Defaults for every group. A group’s own settings are on its page.")), table);
  const draw = redrawOnChange(table, ({ values, unconfirmed_nodes: nodes }) => [unconfirmedNotice(nodes), settingsTable(null, values, () => poller.now())], { ages: false });
  const poller = poll(async () => draw(await read("/v1/config")), EVERY_MS);
  return { stop: poller.stop };
}

function unconfirmedNotice(nodes) {
  if (!nodes.length) return null;
  return h("div", { class: "notice warn", role: "status", "aria-label": "Unconfirmed nodes" },
    "These nodes have not confirmed the newest settings. Each applies them when it renews its leases, or loses its shards.",
    h("ul", {}, nodes.map((each) => h("li", {}, each))));
}
