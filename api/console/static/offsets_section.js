// Offsets as a table: where each partition stands, how far behind in records and in time, and when it may expire.

import { h } from "./dom.js";
import { ago, clock, count, lag, left, NONE, plural, span } from "./format.js";
import { member } from "./words.js";

const DAY_MS = 86_400_000;
const AT_FIRST = 25;
const TITLES = [["Topic", ""], ["Partition", "number"], ["Committed", "number"], ["Log’s end", "number"], ["Lag", "number"], ["Behind by", "number"], ["Committed at", ""], ["Expires in", "number"], ["Held by", ""]];
let isWhole = false;

/** Return the table, the partitions furthest behind first. */
export function offsetsTable(partitions) {
  if (!partitions.length) return h("p", { class: "blank" }, "Nothing is committed.");
  const sorted = [...partitions].sort((one, other) => (other.lag ?? -1) - (one.lag ?? -1));
  const shown = isWhole ? sorted : sorted.slice(0, AT_FIRST);
  const body = h("tbody", {}, shown.map(row));
  const more = sorted.length > shown.length && h("button", { type: "button", class: "quiet", onclick: (event) => { isWhole = true; body.replaceChildren(...sorted.map(row)); event.target.remove(); } }, `Show all ${plural(sorted.length, "partition")}`);
  return [h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Offsets" },
    h("thead", {}, h("tr", {}, TITLES.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))), body)), more];
}

function row(each) {
  return h("tr", {},
    h("td", { class: "id" }, each.topic), h("td", { class: "number" }, each.partition),
    h("td", { class: "number" }, count(each.current_offset)),
    h("td", { class: `number ${each.is_log_end_stale ? "loud" : ""}`, title: `last reported ${clock(each.log_end_at)}` }, count(each.log_end_offset), each.is_log_end_stale && ` of ${ago(each.log_end_at)}`),
    h("td", { class: "number" }, lag(each.lag, each.is_log_end_stale, each.log_end_at, count)),
    h("td", { class: "number" }, each.lag_seconds === null ? NONE : `${each.is_lag_at_least ? "≥ " : ""}${each.lag_seconds === 0 ? "0 s" : span(each.lag_seconds * 1000)}`),
    h("td", {}, clock(each.committed_at)), expiry(each),
    h("td", {}, each.member_id ? member(each.member_id) : h("em", { class: "faint" }, "nobody")));
}

function expiry(each) {
  if (!each.expires_at) return h("td", { class: "number faint" }, each.committed_at ? "kept" : NONE);
  const ms = left(each.expires_at);
  const isSoon = ms < DAY_MS;
  return h("td", { class: `number ${isSoon ? "loud" : ""}`, title: clock(each.expires_at) }, ms <= 0 ? "due !" : `${span(ms)}${isSoon ? " !" : ""}`);
}
