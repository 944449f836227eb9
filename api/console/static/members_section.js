// Members as a table with a filter and sortable columns; by default awaited members come first, then all by their names.

import { h, redrawOnChange, replaceContent } from "./dom.js";
import { compact, count, elapsed, NONE, plural, span, sumOfLags, totalLag } from "./format.js";
import { removeMember } from "./group_actions.js";
import { member } from "./labels.js";
import { now } from "./now.js";

const DENSE_FROM = 20, FILTER_FROM = 6;
const STALLED_MS = 600_000; // as the alert MusterConsumerStalled
const COLUMNS = [
  ["Member", "", ({ each }) => each.member_id],
  ["Client host", "", ({ each }) => each.client_host],
  ["Last heartbeat", "number", ({ each, heartbeatAge }) => (each.parked_request ? null : heartbeatAge)],
  ["Session timeout", "number", ({ session }) => session],
  ["Rebalance timeout", "number", ({ rebalance }) => rebalance],
  ["Partitions", "number", ({ partitions }) => partitions],
  ["Lag", "number", ({ behind }) => behind],
];
const collator = new Intl.Collator("en", { numeric: true });

/** Return a function that draws a group's members into an element; its `focus` moves to the filter. The second argument is null where no offsets are committed. */
export function membersSection(element, again) {
  const field = h("input", { type: "search", id: "members-filter", placeholder: "member, instance or host contains", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/", oninput: redraw });
  const found = h("span", { class: "muted", role: "status" });
  const filter = h("div", { class: "row" }, h("div", { class: "field inline" }, h("label", { for: field.id }, "Filter ", h("kbd", {}, "/")), field), found);
  const body = h("div", {});
  const drawBody = redrawOnChange(body, (group, lag, text, order) => table(group, lag, text, order, sort, again));
  const drawFound = redrawOnChange(found, (text) => text, { ages: false });
  let last = null;
  let order = null;
  filter.hidden = true;

  /** Sort by a column: first in its usual direction, then in the other one, then in the default order. */
  function sort(title, kind) {
    const usual = kind === "number" ? "descending" : "ascending";
    if (order?.title !== title) order = { title, direction: usual };
    else order = order.direction === usual ? { title, direction: usual === "ascending" ? "descending" : "ascending" } : null;
    redraw();
  }

  function redraw() {
    const [group, lag] = last;
    const matching = group.members.filter((each) => matches(each, field.value)).length;
    filter.hidden = group.members.length < FILTER_FROM && !field.value;
    drawFound(field.value ? `${count(matching)} of ${plural(group.members.length, "member")}` : plural(group.members.length, "member"));
    drawBody(group, lag, field.value, order);
  }

  const draw = (group, lag) => {
    last = [group, lag];
    if (!element.contains(body)) replaceContent(element, filter, body); // it has a notice until the group is loaded, and while it is quarantined
    redraw();
  };
  draw.focus = () => { field.focus(); field.select(); };
  return draw;
}

function matches(each, text) {
  return [each.member_id, each.group_instance_id ?? "", each.client_host].some((name) => name.toLowerCase().includes(text.toLowerCase()));
}

function table(group, lag, text, order, sort, again) {
  if (!group.members.length) return h("p", { class: "empty-state" }, "This group has no members.");
  const behind = Map.groupBy(lag?.partitions ?? [], (partition) => partition.member_id);
  const rows = group.members.filter((each) => matches(each, text)).map((each) => factsOf(group, each, behind.get(each.member_id)));
  if (!rows.length) return h("p", { class: "empty-state" }, "No matching members.");
  return h("div", { class: "scroll" }, h("table", { class: group.members.length >= DENSE_FROM ? "list dense" : "list", "aria-label": "Members" },
    h("thead", {}, h("tr", {}, COLUMNS.map(([title, kind]) => heading(title, kind, order, sort)), h("th", { scope: "col" }, h("span", { class: "visually-hidden" }, "Remove")))),
    h("tbody", {}, sorted(rows, group.waiting_for, order).map((facts) => row(group, facts, again)))));
}

function heading(title, kind, order, sort) {
  const direction = order?.title === title ? order.direction : null;
  return h("th", { scope: "col", class: kind, "aria-sort": direction },
    h("button", { type: "button", class: "sort", "data-key": `members-${title}`, onclick: () => sort(title, kind) }, title, direction && h("span", { "aria-hidden": "true" }, direction === "ascending" ? " ▴" : " ▾")));
}

function factsOf(group, each, partitions) {
  return {
    each,
    session: group.config.session_timeout_ms ?? each.session_timeout_ms,
    rebalance: group.config.rebalance_timeout_ms ?? each.rebalance_timeout_ms,
    heartbeatAge: each.last_heartbeat_at && elapsed(each.last_heartbeat_at),
    partitions: each.owned_partitions?.reduce((sum, owned) => sum + owned.partitions.length, 0) ?? null,
    behind: sumOfLags(partitions ?? []),
    uncommitted: uncommitted(group, partitions ?? []),
    lag: totalLag(partitions ?? [], compact),
  };
}

/** Return the time since a member's last commit if records have waited for it for STALLED_MS, and its partitions are its own for as long; else null. */
function uncommitted(group, partitions) {
  if (group.state !== "Stable" || now() - Date.parse(group.state_since) < STALLED_MS) return null;
  const age = now() - Math.max(...partitions.filter((each) => each.committed_at).map((each) => Date.parse(each.committed_at)));
  const isLagging = partitions.some((each) => each.lag_seconds * 1000 > STALLED_MS);
  return isLagging && age > STALLED_MS ? age : null;
}

/** Return the rows in an order; unknown values come last in either direction. */
function sorted(rows, waitingFor, order) {
  if (!order) {
    const place = new Map(waitingFor.map((id, index) => [id, index]));
    return rows.sort(({ each: one }, { each: other }) => (place.get(one.member_id) ?? Infinity) - (place.get(other.member_id) ?? Infinity) || collator.compare(one.member_id, other.member_id));
  }
  const [, , value] = COLUMNS.find(([title]) => title === order.title);
  const sign = order.direction === "ascending" ? 1 : -1;
  return rows.sort((one, other) => {
    const [first, second] = [value(one), value(other)];
    if (first === null || second === null) return (first === null) - (second === null);
    return sign * (typeof first !== "string" ? Number(first) - Number(second) : collator.compare(first, second));
  });
}

const AWAITED = { join: "has not joined", sync: "has not synced" };
const PARKED = { join: "joined, waiting for others", sync: "synced, waiting for the leader" };

function row(group, { each, session, rebalance, heartbeatAge, partitions, behind, lag, uncommitted: silence }, again) {
  const isLate = !each.parked_request && heartbeatAge !== null && heartbeatAge > session / 2;
  const isLeader = each.member_id === group.leader;
  return h("tr", { class: each.missing_request ? "rebalancing" : "" },
    h("td", { class: "id" }, member(each.member_id), isLeader && h("span", { class: "tag" }, "leader"),
      each.group_instance_id && h("span", { class: "tag name", title: "static member" }, `static ${each.group_instance_id}`),
      each.missing_request && h("strong", { class: "tag warn" }, `◐ ${isLeader && each.missing_request === "sync" ? "assignment not sent" : AWAITED[each.missing_request]}`),
      silence !== null && h("strong", { class: "tag warn", title: "records of its partitions have waited for more than ten minutes" }, `no commit for ${span(Math.floor(silence / 1000) * 1000)} !`)),
    h("td", {}, each.client_host),
    h("td", { class: `number ${isLate ? "critical" : ""}` }, each.parked_request ? PARKED[each.parked_request] : since(heartbeatAge, isLate)),
    h("td", { class: "number", title: session === each.session_timeout_ms ? "requested by the client" : `requested by the client: ${span(each.session_timeout_ms)}` }, span(session)),
    h("td", { class: "number" }, span(rebalance)),
    h("td", { class: "number" }, count(partitions)),
    h("td", { class: "number", title: count(behind) }, lag),
    h("td", {}, h("button", { type: "button", "data-key": `remove-${each.member_id}`, "aria-label": `Remove ${each.member_id}`, onclick: () => removeMember(group, each, again) }, "Remove member…")));
}

function since(heartbeatAge, isLate) {
  if (heartbeatAge === null) return NONE;
  return `${heartbeatAge < 1000 ? "< 1 s" : span(Math.floor(heartbeatAge / 1000) * 1000)} ago${isLate ? " !" : ""}`;
}
