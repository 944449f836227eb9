// Ended member sessions as a table: time since the last heartbeat, heartbeat gaps, and when the client rejoined.

import { h, tableHead } from "./dom.js";
import { clock, count, NONE, plural, span } from "./format.js";
import { end, member } from "./labels.js";
import { timeRange } from "./timeline.js";

/** The end reasons; other rows are hourly intervals of ongoing sessions. */
export const ENDS = ["left", "session_expired", "left_or_expired", "new_member_timeout", "rebalance_timeout", "sync_timeout", "admin", "replaced"];
const INITIAL_ROWS = 12;
const FIRST_BOUND = 6, LAST_BOUND = 17;
const TITLES = [["Ended", ""], ["End reason", ""], ["Member", ""], ["Duration", "number"], ["Since last heartbeat", "number"], ["Session timeout", "number"], ["Heartbeat gaps", ""], ["Longest gap", "number"], ["Rejoined after", "number"]];
let expandedGroup = null;

/** Return a group's table, the newest end first; `range` is the time that the user selected, or null. */
export function memberSessionsTable(groupId, sessions, range) {
  if (!sessions.length) return h("p", { class: "empty-state" }, range ? `No member session ended in the selected time, ${timeRange(range)}.` : "No member session has ended within the last day.");
  const shown = expandedGroup === groupId ? sessions : sessions.slice(0, INITIAL_ROWS);
  const body = h("tbody", {}, shown.map(row));
  const more = sessions.length > shown.length && h("button", { type: "button", class: "quiet", onclick: (event) => { expandedGroup = groupId; body.replaceChildren(...sessions.map(row)); event.target.remove(); } }, `Show the last ${plural(sessions.length, "member session")}`);
  return [range && h("p", { class: "muted" }, `Ended in the selected time, ${timeRange(range)}:`), h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Ended member sessions" },
    tableHead(TITLES), body)), more];
}

function row(each) {
  const isEvicted = !["left", "left_or_expired", "replaced"].includes(each.end_reason);
  return h("tr", {},
    h("td", { title: each.ended_at }, clock(each.ended_at)),
    h("td", { class: isEvicted ? "action critical" : "action" }, end(each.end_reason, each.cause), isEvicted && " !"),
    h("td", { class: "id" }, member(each.member_id), each.group_instance_id && h("span", { class: "tag name", title: "static member" }, `static ${each.group_instance_id}`)),
    h("td", { class: "number" }, between(each.joined_at, each.ended_at)),
    h("td", { class: "number" }, between(each.last_heartbeat_at, each.ended_at)),
    h("td", { class: "number" }, span(each.session_timeout_ms)),
    h("td", {}, gaps(each)),
    h("td", { class: "number" }, each.heartbeat_gap_ms_max === null ? NONE : span(each.heartbeat_gap_ms_max)),
    h("td", { class: "number", title: "time until the same client joined again, within a minute" }, between(each.ended_at, each.reconnected_at)));
}

const between = (one, other) => (one && other ? span(Date.parse(other) - Date.parse(one)) : NONE);

/** Draw the histogram of gaps between heartbeats: a column for each doubling, from 64 ms to two minutes. */
function gaps({ heartbeat_gap_histogram: counts }) {
  if (!counts?.some((each) => each > 0)) return h("span", { class: "muted" }, NONE);
  const columns = [counts.slice(0, FIRST_BOUND + 1).reduce((sum, each) => sum + each, 0), ...counts.slice(FIRST_BOUND + 1, LAST_BOUND + 1), counts.slice(LAST_BOUND + 1).reduce((sum, each) => sum + each, 0)];
  const most = Math.max(...columns);
  const summary = columns.map((many, index) => many > 0 && `${count(many)} ${bound(index)}`).filter(Boolean).join(", ");
  return h("span", { class: "gaps", role: "img", "aria-label": `gaps: ${summary}`, title: summary },
    columns.map((many) => h("span", { class: many ? "" : "none", "--h": `${many ? Math.max(12, (100 * many) / most) : 4}%` })));
}

const bound = (index) => (FIRST_BOUND + index > LAST_BOUND ? `over ${span(2 ** LAST_BOUND)}` : `up to ${span(2 ** (FIRST_BOUND + index))}`);
