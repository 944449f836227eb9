// The table of members: awaited ones first, each with the time since its last heartbeat beside its session timeout.

import { h } from "./dom.js";
import { compact, count, NONE, span } from "./format.js";
import { removeMember } from "./group_actions.js";
import { member } from "./words.js";

const TITLES = [["Member", ""], ["Client’s address", ""], ["Last heartbeat", "number"], ["Session timeout", "number"], ["Rebalance timeout", "number"], ["Partitions", "number"], ["Lag", "number"], ["", ""]];

/** Return the table. */
export function membersTable(group, lag, again) {
  if (!group.members.length) return h("p", { class: "blank" }, "This group has no members.");
  const place = new Map(group.waiting_for.map((id, index) => [id, index]));
  const members = [...group.members].sort((one, other) => (place.get(one.member_id) ?? Infinity) - (place.get(other.member_id) ?? Infinity) || 0);
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Members" },
    h("thead", {}, h("tr", {}, TITLES.map(([title, kind]) => h("th", { scope: "col", class: kind }, title || h("span", { class: "sr" }, "Remove"))))),
    h("tbody", {}, members.map((each) => row(group, each, lag, again)))));
}

const AWAITED = { join: "to join", sync: "to sync" };
const PARKED = { join: "joining, waiting", sync: "syncing, waiting" };

function row(group, each, lag, again) {
  const session = group.config.session_timeout_ms ?? each.session_timeout_ms;
  const silent = each.last_heartbeat_at && Math.max(Date.now() - Date.parse(each.last_heartbeat_at), 0);
  const behind = lag?.partitions.filter((partition) => partition.member_id === each.member_id).map((partition) => partition.lag).filter((records) => records !== null);
  const isLate = !each.awaiting && silent !== null && silent > session / 2;
  const isLeader = each.member_id === group.leader;
  return h("tr", { class: each.awaited ? "unsettled" : "" },
    h("td", { class: "id" }, member(each.member_id), isLeader && h("span", { class: "tag" }, "leader"),
      each.group_instance_id && h("span", { class: "tag", title: "static member" }, `static ${each.group_instance_id}`),
      each.awaited && h("strong", { class: "tag warn" }, `◐ awaited ${isLeader && each.awaited === "sync" ? "to send the assignment" : AWAITED[each.awaited]}`)),
    h("td", {}, each.client_host),
    h("td", { class: `number ${isLate ? "loud" : ""}` }, each.awaiting ? PARKED[each.awaiting] : since(silent, isLate)),
    h("td", { class: "number", title: session === each.session_timeout_ms ? "what the member asked for" : `the member asked for ${span(each.session_timeout_ms)}` }, span(session)),
    h("td", { class: "number" }, span(group.config.rebalance_timeout_ms ?? each.rebalance_timeout_ms)),
    h("td", { class: "number" }, each.owned_partitions ? count(each.owned_partitions.reduce((sum, owned) => sum + owned.partitions.length, 0)) : NONE),
    h("td", { class: "number" }, behind?.length ? compact(behind.reduce((sum, records) => sum + records, 0)) : NONE),
    h("td", {}, h("button", { type: "button", "data-key": `out-${each.member_id}`, "aria-label": `Remove ${each.member_id}`, onclick: () => removeMember(group, each, again) }, "Remove…")));
}

function since(silent, isLate) {
  if (silent === null) return NONE;
  return `${silent < 1000 ? "< 1 s" : span(Math.floor(silent / 1000) * 1000)} ago${isLate ? " !" : ""}`;
}
