// Offsets as a table: committed offset, log end offset, lag in records and in time, and expiry of each partition.

import { h, tableHead } from "./dom.js";
import { ago, clock, count, lag, left, NONE, plural, span, timeLag } from "./format.js";
import { member, topicLink } from "./labels.js";

const DAY_MS = 86_400_000;
const INITIAL_ROWS = 25;
const TITLES = [["Topic", ""], ["Partition", "number"], ["Committed offset", "number"], ["Log end offset", "number"], ["Lag", "number"], ["Time lag", "number"], ["Committed at", ""], ["Expires in", "number"], ["Owner", ""]];
let expandedGroup = null;

/** Return a group's table, the highest lag first. */
export function offsetsTable(groupId, partitions) {
  if (!partitions.length) return h("p", { class: "empty-state" }, "No committed offsets.");
  const sorted = [...partitions].sort((one, other) => (other.lag ?? -1) - (one.lag ?? -1));
  const shown = expandedGroup === groupId ? sorted : sorted.slice(0, INITIAL_ROWS);
  const body = h("tbody", {}, shown.map(row));
  const more = sorted.length > shown.length && h("button", { type: "button", class: "quiet", onclick: (event) => { expandedGroup = groupId; body.replaceChildren(...sorted.map(row)); event.target.remove(); } }, `Show all ${plural(sorted.length, "partition")}`);
  return [h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Offsets" },
    tableHead(TITLES), body)), more];
}

function row(each) {
  return h("tr", {},
    h("td", { class: "id" }, topicLink(each.topic)), h("td", { class: "number" }, each.partition),
    h("td", { class: "number" }, count(each.current_offset)),
    h("td", { class: `number ${each.is_log_end_stale ? "critical" : ""}`, title: `last reported ${clock(each.log_end_at)}` }, count(each.log_end_offset), each.is_log_end_stale && `, reported ${ago(each.log_end_at)}`),
    h("td", { class: "number" }, lag(each.lag, each.is_log_end_stale, each.log_end_at, count)),
    h("td", { class: "number" }, timeLag(each)),
    h("td", {}, clock(each.committed_at)), expiry(each),
    h("td", {}, each.member_id ? member(each.member_id) : h("em", { class: "muted" }, "unassigned")));
}

function expiry(each) {
  if (!each.expires_at) return h("td", { class: "number muted" }, each.committed_at && !document.getElementById("mirror") ? "no expiry" : NONE);
  const ms = left(each.expires_at);
  const isSoon = ms < DAY_MS;
  return h("td", { class: `number ${isSoon ? "critical" : ""}`, title: clock(each.expires_at) }, ms <= 0 ? "expired, not yet removed !" : `${span(ms)}${isSoon ? " !" : ""}`);
}
