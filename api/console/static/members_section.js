// Members as a table: those first who are waited for, each with its silence beside what it is allowed.

import { h } from "./dom.js";
import { compact, count, NONE, span } from "./format.js";
import { removeMember } from "./group_actions.js";
import { member } from "./words.js";

const TITLES = [["Member", ""], ["Client’s address", ""], ["Silent for", "number"], ["Session timeout", "number"], ["Rebalance timeout", "number"], ["Partitions", "number"], ["Lag", "number"], ["", ""]];

/** Return the table. */
export function membersTable(group, lag, again) {
  if (!group.members.length) return h("p", { class: "blank" }, "Nobody is in this group.");
  const waited = new Set(group.waiting_for);
  const members = [...group.members].sort((one, other) => waited.has(other.member_id) - waited.has(one.member_id));
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Members" },
    h("thead", {}, h("tr", {}, TITLES.map(([title, kind]) => h("th", { scope: "col", class: kind }, title || h("span", { class: "sr" }, "Put out"))))),
    h("tbody", {}, members.map((each) => row(group, each, waited.has(each.member_id), lag, again)))));
}

function row(group, each, isWaited, lag, again) {
  const session = group.config.session_timeout_ms ?? each.session_timeout_ms;
  const silent = each.last_heartbeat_at && Math.max(Date.now() - Date.parse(each.last_heartbeat_at), 0);
  const held = lag?.partitions.filter((partition) => partition.member_id === each.member_id);
  const behind = held?.map((partition) => partition.lag).filter((records) => records !== null);
  const isLate = silent !== null && silent > session / 2;
  return h("tr", { class: isWaited ? "unsettled" : "" },
    h("td", { class: "id" }, member(each.member_id), each.member_id === group.leader && h("span", { class: "tag" }, "leader"),
      each.group_instance_id && h("span", { class: "tag", title: "static member" }, `static ${each.group_instance_id}`),
      isWaited && h("strong", { class: "tag warn" }, "◐ waited for"), each.awaiting && h("span", { class: "tag" }, `ready, waits in ${each.awaiting}`)),
    h("td", {}, each.client_host),
    h("td", { class: `number ${isLate ? "loud" : ""}` }, silent === null ? NONE : `${silent < 1000 ? "< 1 s" : span(Math.floor(silent / 1000) * 1000)}${isLate ? " !" : ""}`),
    h("td", { class: "number", title: session === each.session_timeout_ms ? "what the member asked for" : `the member asked for ${span(each.session_timeout_ms)}` }, span(session)),
    h("td", { class: "number" }, span(group.config.rebalance_timeout_ms ?? each.rebalance_timeout_ms)),
    h("td", { class: "number" }, held ? count(held.length) : NONE),
    h("td", { class: "number" }, behind?.length ? compact(behind.reduce((sum, records) => sum + records, 0)) : NONE),
    h("td", {}, h("button", { type: "button", "data-key": `out-${each.member_id}`, "aria-label": `Put out ${each.member_id}`, onclick: () => removeMember(group.group_id, each.member_id, again) }, "Put out…")));
}
