// The last rebalances as bars of two phases, each with its trigger and its slowest member.

import { groupPath, read } from "./api.js";
import { h } from "./dom.js";
import { clock, count, plural, span } from "./format.js";
import { member, trigger } from "./labels.js";
import { now } from "./now.js";
import { timeRange } from "./timeline.js";

const SHOWN = 12;
const WORTH_NAMING_MS = 100;
const slowestMembers = new Map();
const CACHE_MAX = 500;

/** Return the rebalances that took place within a time, at least in part; null: any time. */
export const within = (rebalances, range) => rebalances.filter((each) => !range || (Date.parse(each.started_at) <= range.to && end(each) >= range.from));

/** Return the rebalances to show and the members that each waited for longest; results of ended rebalances are cached. */
export async function membersOf(groupId, rebalances) {
  const shown = rebalances.slice(0, SHOWN);
  if (slowestMembers.size > CACHE_MAX) slowestMembers.clear();
  await Promise.all(shown.filter((each) => each.completed_at && !slowestMembers.has(each.rebalance_id)).map(async ({ rebalance_id: id }) => {
    slowestMembers.set(id, (await read(groupPath(groupId, "rebalances", id, "members"), { limit: 3 })).waited_for);
  }));
  return [shown, shown.map((each) => slowestMembers.get(each.rebalance_id) ?? [])];
}

/** Return the rebalances as bars, newest first; `range` is the time that the user selected, or null, with `total` rebalances. */
export function rebalanceBars(rebalances, members, range, total) {
  if (!rebalances.length) return h("p", { class: "empty-state" }, range ? `No rebalance in the selected time, ${timeRange(range)}.` : "No rebalances yet.");
  const longest = Math.max(...rebalances.map(took), 1);
  return [
    range && h("p", { class: "muted" }, `${plural(total, "rebalance")} in the selected time, ${timeRange(range)}${total > rebalances.length ? `; the last ${rebalances.length}` : ""}:`),
    h("ul", { class: "legend" }, h("li", {}, h("span", { class: "swatch join" }), " join phase: until all members rejoined or timed out"), h("li", {}, h("span", { class: "swatch sync" }), " sync phase: until all members received their assignment")),
    h("ol", { class: "bars" }, rebalances.map((each, index) => bar(each, members[index], longest))),
  ];
}

const end = (each) => (each.completed_at ? Date.parse(each.completed_at) : now());
const took = (each) => Math.max(end(each) - Date.parse(each.started_at), 0);

function bar(each, members, longest) {
  const join = (each.joined_at ? Date.parse(each.joined_at) : end(each)) - Date.parse(each.started_at);
  const sync = took(each) - join;
  const share = (ms) => `${(100 * Math.max(ms, 0)) / longest}%`;
  return h("li", {},
    h("span", { class: "when", title: each.is_start_inferred ? `${each.started_at}: the end of the join phase; its start is not known` : each.started_at }, clock(each.started_at)),
    h("span", { class: "track", role: "img", "aria-label": `${span(took(each))}: ${span(join)} joining, ${span(sync)} syncing` },
      h("span", { class: "join", "--w": share(join), title: `joining: ${span(join)}` }),
      h("span", { class: "sync", "--w": share(sync), title: `syncing: ${span(sync)}` })),
    h("span", { class: "took" }, span(took(each))),
    h("span", { class: "why" }, reason(each), " ", slowest(members)));
}

function reason(each) {
  const sentence = trigger(each.trigger);
  return [
    h("span", { class: "first" }, `${sentence[0].toUpperCase()}${sentence.slice(1)}`),
    each.trigger_member_id && [": ", member(each.trigger_member_id)],
    each.is_trigger_inferred && h("span", { class: "muted", title: "The log of the mirrored cluster does not say why; the members before and after do." }, " (inferred)"),
    each.client_reason && h("q", {}, each.client_reason),
    each.outcome === null ? h("strong", {}, " – in progress") : each.outcome !== "completed" && ` – ${each.outcome}`,
    each.restarts > 0 && ` – restarted ${plural(each.restarts, "time")}`,
    each.partitions_moved ? ` – ${plural(each.partitions_moved, "partition")} moved` : "",
  ];
}

function slowest(consumers) {
  const [first] = consumers;
  if (!first || first.waited_for_ms < WORTH_NAMING_MS) return null;
  return h("span", { class: "slowest" }, "Slowest member: ", member(first.member_id), `, waited for ${span(first.waited_for_ms)}${first.member_count > 1 ? ` under ${count(first.member_count)} member ids` : ""}${first.outcome === "joined" ? "" : `, ${first.outcome}`}.`);
}
