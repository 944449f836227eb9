// Members as a table, awaited ones first, with the time since the last heartbeat and the session timeout.

import { h } from "./dom.js";
import { compact, count, NONE, span } from "./format.js";
import { removeMember } from "./group_actions.js";
import { member } from "./labels.js";

const TITLES = [["Member", ""], ["Client host", ""], ["Last heartbeat", "number"], ["Session timeout", "number"], ["Rebalance timeout", "number"], ["Partitions", "number"], ["Lag", "number"], ["", ""]];

/** Return the table of a group's members; `lag` is null where no offsets are committed. */
export function membersTable(group, lag, again) {
  if (!group.members.length) return h("p", { class: "empty-state" }, "This group has no members.");
  const place = new Map(group.waiting_for.map((id, index) => [id, index]));
  const members = [...group.members].sort((one, other) => (place.get(one.member_id) ?? Infinity) - (place.get(other.member_id) ?? Infinity) || 0);
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Members" },
    h("thead", {}, h("tr", {}, TITLES.map(([title, kind]) => h("th", { scope: "col", class: kind }, title || h("span", { class: "visually-hidden" }, "Remove"))))),
    h("tbody", {}, members.map((each) => row(group, each, lag, again)))));
}

const AWAITED = { join: "has not joined", sync: "has not synced" };
const PARKED = { join: "joined, waiting for others", sync: "synced, waiting for the leader" };

function row(group, each, lag, again) {
  const session = group.config.session_timeout_ms ?? each.session_timeout_ms;
  const heartbeatAge = each.last_heartbeat_at && Math.max(Date.now() - Date.parse(each.last_heartbeat_at), 0);
  const behind = lag?.partitions.filter((partition) => partition.member_id === each.member_id).map((partition) => partition.lag).filter((records) => records !== null);
  const isLate = !each.parked_request && heartbeatAge !== null && heartbeatAge > session / 2;
  const isLeader = each.member_id === group.leader;
  return h("tr", { class: each.missing_request ? "rebalancing" : "" },
    h("td", { class: "id" }, member(each.member_id), isLeader && h("span", { class: "tag" }, "leader"),
      each.group_instance_id && h("span", { class: "tag name", title: "static member" }, `static ${each.group_instance_id}`),
      each.missing_request && h("strong", { class: "tag warn" }, `◐ ${isLeader && each.missing_request === "sync" ? "assignment not sent" : AWAITED[each.missing_request]}`)),
    h("td", {}, each.client_host),
    h("td", { class: `number ${isLate ? "critical" : ""}` }, each.parked_request ? PARKED[each.parked_request] : since(heartbeatAge, isLate)),
    h("td", { class: "number", title: session === each.session_timeout_ms ? "requested by the client" : `requested by the client: ${span(each.session_timeout_ms)}` }, span(session)),
    h("td", { class: "number" }, span(group.config.rebalance_timeout_ms ?? each.rebalance_timeout_ms)),
    h("td", { class: "number" }, each.owned_partitions ? count(each.owned_partitions.reduce((sum, owned) => sum + owned.partitions.length, 0)) : NONE),
    h("td", { class: "number" }, behind?.length ? compact(behind.reduce((sum, records) => sum + records, 0)) : NONE),
    h("td", {}, h("button", { type: "button", "data-key": `remove-${each.member_id}`, "aria-label": `Remove ${each.member_id}`, onclick: () => removeMember(group, each, again) }, "Remove member…")));
}

function since(heartbeatAge, isLate) {
  if (heartbeatAge === null) return NONE;
  return `${heartbeatAge < 1000 ? "< 1 s" : span(Math.floor(heartbeatAge / 1000) * 1000)} ago${isLate ? " !" : ""}`;
}
