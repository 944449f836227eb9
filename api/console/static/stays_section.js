// How members' stays ended, as a table: how long each had been silent, how far its heartbeats lay apart, was it back at once.

import { h } from "./dom.js";
import { clock, count, NONE, plural, span } from "./format.js";
import { end, member } from "./words.js";

/** What ends a stay; other rows are hours of stays that go on. */
export const ENDS = ["left", "session_expired", "rebalance_timeout", "sync_timeout", "admin", "replaced"];
const AT_FIRST = 12;
const FIRST_BOUND = 6, LAST_BOUND = 17;
const TITLES = [["Ended", ""], ["How", ""], ["Member", ""], ["Stayed", "number"], ["Silent before", "number"], ["Session timeout", "number"], ["Between heartbeats", ""], ["At most", "number"], ["Back after", "number"]];
let isWhole = false;

/** Return the table, the newest end first. */
export function staysTable(stays) {
  if (!stays.length) return h("p", { class: "blank" }, "No stay has ended within the last day.");
  const shown = isWhole ? stays : stays.slice(0, AT_FIRST);
  const body = h("tbody", {}, shown.map(row));
  const more = stays.length > shown.length && h("button", { type: "button", class: "quiet", onclick: (event) => { isWhole = true; body.replaceChildren(...stays.map(row)); event.target.remove(); } }, `Show the last ${plural(stays.length, "stay")}`);
  return [h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Stays that ended" },
    h("thead", {}, h("tr", {}, TITLES.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))), body)), more];
}

function row(each) {
  const isPutOut = !["left", "replaced"].includes(each.end_reason);
  return h("tr", {},
    h("td", { title: each.ended_at }, clock(each.ended_at)),
    h("td", { class: isPutOut ? "act loud" : "act" }, end(each.end_reason, each.cause), isPutOut && " !"),
    h("td", { class: "id" }, member(each.member_id), each.group_instance_id && h("span", { class: "tag", title: "static member" }, `static ${each.group_instance_id}`)),
    h("td", { class: "number" }, between(each.joined_at, each.ended_at)),
    h("td", { class: "number" }, between(each.last_heartbeat_at, each.ended_at)),
    h("td", { class: "number" }, span(each.session_timeout_ms)),
    h("td", {}, gaps(each)),
    h("td", { class: "number" }, each.heartbeat_gap_ms_max === null ? NONE : span(each.heartbeat_gap_ms_max)),
    h("td", { class: "number", title: "when the same client joined again, within a minute" }, between(each.ended_at, each.back_at)));
}

const between = (one, other) => (one && other ? span(Date.parse(other) - Date.parse(one)) : NONE);

/** Draw how many heartbeats came how long after the one before: a column for each doubling, from 64 ms to two minutes. */
function gaps({ heartbeat_gap_histogram: counts }) {
  const total = counts.reduce((sum, each) => sum + each, 0);
  if (!total) return h("span", { class: "faint" }, NONE);
  const columns = [counts.slice(0, FIRST_BOUND + 1).reduce((sum, each) => sum + each, 0), ...counts.slice(FIRST_BOUND + 1, LAST_BOUND + 1), counts.slice(LAST_BOUND + 1).reduce((sum, each) => sum + each, 0)];
  const most = Math.max(...columns);
  const told = columns.map((many, index) => many > 0 && `${count(many)} ${bound(index)}`).filter(Boolean).join(", ");
  return h("span", { class: "gaps", role: "img", "aria-label": `gaps: ${told}`, title: told },
    columns.map((many) => h("span", { class: many ? "" : "none", "--h": `${many ? Math.max(12, (100 * many) / most) : 4}%` })));
}

const bound = (index) => (FIRST_BOUND + index > LAST_BOUND ? `beyond ${span(2 ** LAST_BOUND)}` : `up to ${span(2 ** (FIRST_BOUND + index))}`);
