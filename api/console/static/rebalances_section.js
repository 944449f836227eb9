// The last rebalances as bars, split into their two phases, with why each began and who held it up longest.

import { groupPath, read } from "./api.js";
import { h } from "./dom.js";
import { clock, count, plural, span } from "./format.js";
import { member, trigger } from "./words.js";

const SHOWN = 12;
const WORTH_NAMING_MS = 100;
const parts = new Map();
const KEPT_MAX = 500;

/** Return the rebalances to show, and the consumers that each waited for longest; a rebalance that is over does not change any more. */
export async function partsOf(groupId, rebalances) {
  const shown = rebalances.slice(0, SHOWN);
  if (parts.size > KEPT_MAX) parts.clear();
  await Promise.all(shown.filter((each) => each.completed_at && !parts.has(each.rebalance_id)).map(async ({ rebalance_id: id }) => {
    parts.set(id, (await read(groupPath(groupId, "rebalances", id, "members"))).waited_for.slice(0, 3));
  }));
  return [shown, shown.map((each) => parts.get(each.rebalance_id) ?? [])];
}

/** Draw them, the newest on top. */
export function rebalanceBars(rebalances, members) {
  if (!rebalances.length) return h("p", { class: "blank" }, "This group has not rebalanced yet.");
  const longest = Math.max(...rebalances.map(took), 1);
  return [
    h("ul", { class: "legend" }, h("li", {}, h("span", { class: "swatch join" }), " joining: until everybody was back, or given up on"), h("li", {}, h("span", { class: "swatch sync" }), " syncing: until everybody had their part")),
    h("ol", { class: "bars" }, rebalances.map((each, index) => bar(each, members[index], longest))),
  ];
}

const end = (each) => (each.completed_at ? Date.parse(each.completed_at) : Date.now());
const took = (each) => Math.max(end(each) - Date.parse(each.started_at), 0);

function bar(each, members, longest) {
  const join = (each.joined_at ? Date.parse(each.joined_at) : end(each)) - Date.parse(each.started_at);
  const sync = took(each) - join;
  const share = (ms) => `${(100 * Math.max(ms, 0)) / longest}%`;
  return h("li", {},
    h("span", { class: "when", title: each.started_at }, clock(each.started_at)),
    h("span", { class: "track", role: "img", "aria-label": `${span(took(each))}: ${span(join)} joining, ${span(sync)} syncing` },
      h("span", { class: "join", "--w": share(join), title: `joining: ${span(join)}` }),
      h("span", { class: "sync", "--w": share(sync), title: `syncing: ${span(sync)}` })),
    h("span", { class: "took" }, span(took(each))),
    h("span", { class: "why" }, why(each), " ", slowest(members)));
}

function why(each) {
  const said = trigger(each.trigger);
  return [
    h("span", { class: "first" }, `${said[0].toUpperCase()}${said.slice(1)}`),
    each.trigger_member_id && [": ", member(each.trigger_member_id)],
    each.client_reason && h("q", {}, each.client_reason),
    each.outcome === null ? h("strong", {}, " – under way") : each.outcome !== "completed" && ` – ${each.outcome}`,
    each.restarts > 0 && ` – began again ${plural(each.restarts, "time")}`,
    each.partitions_moved ? ` – ${plural(each.partitions_moved, "partition")} moved` : "",
  ];
}

function slowest(consumers) {
  const [first] = consumers;
  if (!first || first.waited_for_ms < WORTH_NAMING_MS) return null;
  return h("span", { class: "slowest" }, "Slowest: ", member(first.member_id), `, waited for ${span(first.waited_for_ms)}${first.member_count > 1 ? ` under ${count(first.member_count)} member ids` : ""}${first.outcome === "joined" ? "" : `, ${first.outcome}`}.`);
}
