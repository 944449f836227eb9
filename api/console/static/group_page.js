// One group: its state, its history and the operations on it.

import { adviceSection } from "./advice_section.js";
import { groupPath, read, readPages } from "./api.js";
import { changesTable } from "./changes_list.js";
import { h, redrawOnChange, replaceContent, withKey } from "./dom.js";
import { findings } from "./findings.js";
import { ago, clock, count, lag as records, left, NONE, plural, span, timeLag } from "./format.js";
import { deleteGroup, forceRebalance, removeMember, shortenTimeout } from "./group_actions.js";
import { ownershipMap } from "./ownership_section.js";
import { pageKeys } from "./keys.js";
import { lagChart } from "./lag_chart.js";
import { membersSection } from "./members_section.js";
import { now } from "./now.js";
import { offsetsTable } from "./offsets_section.js";
import { allOf, poll } from "./poll.js";
import { quarantineNotice } from "./quarantine.js";
import { membersOf, rebalanceBars, within } from "./rebalances_section.js";
import { resetOffsets } from "./reset_offsets.js";
import { settingsTable } from "./settings_section.js";
import { ENDS, memberSessionsTable } from "./member_sessions_section.js";
import { timeline } from "./timeline.js";
import { badge, clientOf, groupName, member, stateNow } from "./labels.js";

const CURRENT_MS = 2_000;
const HISTORY_MS = 5_000;
const SLOW_MS = 30_000;
const HOUR_MS = 3_600_000;
const TRANSITIONS = 500;
const REBALANCES = 500;
const CHANGES = 20;
const MEMBER_SESSIONS = 100;
const PARTITIONS_MAX = 10_000;
const MEMBER_SESSIONS_MS = 24 * HOUR_MS;
const SECTIONS = [
  ["timeline", "Timeline"], ["rebalances", "Rebalances"], ["members", "Members"], ["sessions", "Member sessions"], ["ownership", "Ownership"],
  ["offsets", "Offsets and lag"], ["advice", "Advice"], ["settings", "Settings"], ["changes", "Changes"],
];

/** Show one group. */
export function groupPage(main, [groupId]) {
  const head = h("div", { class: "head" }, h("h1", { class: "id" }, groupName(groupId)), h("p", { class: "muted" }, "Loading…"));
  const problem = h("div", {});
  const notice = h("div", { role: "status" });
  const diagnosis = h("div", {});
  const bodies = Object.fromEntries(SECTIONS.map(([name]) => [name, h("div", { class: "body" }, h("p", { class: "muted" }, "Loading…"))]));
  const sections = h("div", {}, contents(), SECTIONS.map(([name, title], index) =>
    h("section", { id: name, "aria-labelledby": `${name}-title` }, h("h2", { id: `${name}-title`, tabindex: "-1" }, title, " ", h("kbd", { class: "muted" }, index + 1)), bodies[name])));
  replaceContent(main, h("p", { class: "breadcrumb" }, h("a", { href: "#/" }, "Groups")), head, problem, notice, diagnosis, sections);

  const draw = {
    head: redrawOnChange(head, (group, lag, rebalances) => heading(group, lag, rebalances, again)),
    problem: redrawOnChange(problem, (message, reason) => (reason ? quarantineNotice(groupId, reason) : message && h("p", { class: "notice bad", role: "alert" }, message)), { ages: false }),
    notice: redrawOnChange(notice, (...facts) => waiting(facts, removeAwaited, () => shortenTimeout(current, again)), { ages: false }),
    diagnosis: redrawOnChange(diagnosis, (found) => findings(groupId, found, again)),
    sessions: redrawOnChange(bodies.sessions, (sessions, selected) => memberSessionsTable(groupId, sessions, selected)),
    members: membersSection(bodies.members, again),
    ownership: redrawOnChange(bodies.ownership, (members, partitions, isCut) => [isCut && cut(), ownershipMap(members, partitions)]),
    rebalances: redrawOnChange(bodies.rebalances, rebalanceBars),
    settings: redrawOnChange(bodies.settings, (values) => settingsTable(groupId, values, again)),
    changes: redrawOnChange(bodies.changes, (changes) => changesTable(changes, again)),
    advice: redrawOnChange(bodies.advice, (tuning) => adviceSection(groupId, tuning, again)),
  };
  const offsets = h("div", {});
  const chart = h("div", { class: "chart" });
  let current = null;
  let lag; // null: no offset is committed; undefined: not loaded yet
  let rebalancesLastHour = 0;
  replaceContent(bodies.offsets, h("div", { class: "buttons" }, h("button", { type: "button", "data-key": "reset", onclick: () => resetOffsets(groupId, current?.members.length ?? 0, again) }, "Reset offsets…")), chart, offsets);
  const drawOffsets = redrawOnChange(offsets, (partitions, isCut) => [isCut && cut(), offsetsTable(groupId, partitions)]);
  let range = null;
  const drawTimeline = timeline(bodies.timeline, (selected) => { range = selected; history.now(); });
  const drawChart = lagChart(chart);
  const history = poll(loadHistory, HISTORY_MS);
  const pollers = [poll(loadCurrent, CURRENT_MS), poll(loadLag, CURRENT_MS), history, poll(loadSlow, SLOW_MS)];
  pageKeys([
    ["u", "back to groups", () => (location.hash = "#/")],
    ["/", "focus the filter of the members", () => draw.members.focus()],
    ["Escape", "clear the time selected on the timeline", () => drawTimeline.clear()],
    ...SECTIONS.map(([name, title], index) => [String(index + 1), `go to ${title}`, () => jump(name)]),
  ]);

  function again() {
    pollers.forEach((poller) => poller.now());
  }

  function removeAwaited(memberId) {
    return removeMember(current, current.members.find((each) => each.member_id === memberId), again);
  }

  async function loadCurrent() {
    const group = await readPages(groupPath(groupId), "members").catch(broken);
    sections.hidden = false;
    current = group;
    const awaited = group.members.filter((each) => each.missing_request).map((each) => each.member_id);
    draw.problem();
    const until = group.waiting_until && new Date(Math.round(Date.parse(group.waiting_until) / 1000) * 1000); // its milliseconds differ from read to read
    draw.notice(group.state, group.waiting_for, until, group.leader, group.members.length - awaited.length, awaited);
    const rest = withKey(notice, "rest");
    if (rest) replaceContent(rest, remaining(group));
    drawCurrent();
  }

  async function loadLag() {
    lag = await optional(readPages(groupPath(groupId, "lag"), "partitions", PARTITIONS_MAX));
    drawOffsets(lag?.partitions ?? [], Boolean(lag?.next_cursor));
    if (current) drawCurrent();
  }

  function drawCurrent() {
    const isCut = Boolean(lag?.next_cursor);
    draw.head(current, lag, rebalancesLastHour);
    draw.members(current, isCut ? null : lag);
    if (lag !== undefined) draw.ownership(current.members.map((each) => [each.member_id, each.client_id]), lag?.partitions ?? null, isCut);
  }

  function broken(refusal) {
    if (refusal.status === 404) sections.hidden = true;
    if (refusal.status === 404 || refusal.quarantineReason) {
      current = null;
      replaceContent(head, h("h1", { class: "id" }, groupName(groupId)));
    }
    draw.notice(null);
    draw.problem(refusal.message, refusal.quarantineReason);
    if (refusal.quarantineReason) {
      for (const name of ["members", "ownership"]) replaceContent(bodies[name], h("p", { class: "muted" }, "Not shown while the group is quarantined."));
    }
    throw refusal;
  }

  async function loadHistory() {
    const path = (name) => groupPath(groupId, name);
    const selected = range;
    const iso = (ms) => new Date(ms).toISOString();
    const ended = selected ? { from: iso(selected.from), to: iso(selected.to) } : { from: iso(now() - MEMBER_SESSIONS_MS) };
    await allOf(
      Promise.all([optional(read(path("transitions"), { limit: TRANSITIONS })), optional(read(path("rebalances"), { limit: REBALANCES }))]).then((found) => showRebalances(...found, selected)),
      optional(read(path("member-sessions"), { limit: MEMBER_SESSIONS, end_reason: ENDS, ...ended })).then((found) => draw.sessions(found?.member_sessions ?? [], selected)),
      optional(read(path("diagnosis"))).then((found) => draw.diagnosis(found?.findings ?? [])),
      read(path("config")).then(({ values }) => draw.settings(values)),
      read("/v1/changes", { group_id: groupId, limit: CHANGES }).then(({ changes }) => draw.changes(changes)),
    );
  }

  async function showRebalances(transitions, rebalances, selected) {
    const createdAt = (transitions?.transitions[0] ?? rebalances?.rebalances[0])?.group_created_at; // a group of that name may have been deleted
    rebalancesLastHour = (rebalances?.rebalances ?? []).filter((each) => each.group_created_at === createdAt && Date.parse(each.completed_at) > now() - HOUR_MS).length;
    if (current) draw.head(current, lag, rebalancesLastHour);
    drawTimeline(transitions?.transitions ?? [], rebalances?.rebalances ?? [], { transitions: Boolean(transitions?.next_cursor), rebalances: Boolean(rebalances?.next_cursor) });
    const listed = within(rebalances?.rebalances ?? [], selected);
    draw.rebalances(...await membersOf(groupId, listed), selected, listed.length);
  }

  async function loadSlow() {
    await allOf(
      read(groupPath(groupId, "tuning")).catch((refusal) => ({ refusal: refusal.message })).then(draw.advice),
      optional(read(groupPath(groupId, "lag", "history"))).then((found) => drawChart(found?.points ?? [])),
    );
  }

  return { stop: () => { pollers.forEach((poller) => poller.stop()); drawChart.stop(); } };
}

/** Return the sentence above a list of partitions that is not whole. */
const cut = () => h("p", { class: "muted" }, `Only the first ${count(PARTITIONS_MAX)} partitions by name and number are listed. The lag at the top of the page is that of all.`);

/** Return the response, or null if it is a 404. */
async function optional(request) {
  try {
    return await request;
  } catch (refusal) {
    if (refusal.status === 404) return null;
    throw refusal;
  }
}

function jump(name) {
  const title = document.getElementById(`${name}-title`);
  title.scrollIntoView({ block: "start" });
  title.focus({ preventScroll: true });
}

function contents() {
  return h("nav", { class: "contents", "aria-label": "On this page" },
    SECTIONS.map(([name, title]) => h("button", { type: "button", class: "quiet", onclick: () => jump(name) }, title)));
}

function heading(group, lag, rebalances, again) {
  return [
    h("div", { class: "row spread" },
      h("h1", { class: "id" }, groupName(group.group_id)),
      h("div", { class: "buttons" },
        group.members.length > 0 && h("button", { type: "button", "data-key": "force", onclick: () => forceRebalance(group, again) }, "Force a rebalance…"),
        group.members.length === 0 && group.state !== "Dead" && h("button", { type: "button", "data-key": "delete", onclick: () => deleteGroup(group, again) }, "Delete the group…"))),
    h("dl", { class: "facts" },
      fact("State", badge(stateNow(group.state, rebalances))),
      fact("Since", group.state_since ? h("span", { title: group.state_since }, `${clock(group.state_since)}, ${ago(group.state_since)}`) : NONE),
      fact("Members", [count(group.members.length), group.pending_members > 0 && `, ${group.pending_members} pending`]),
      fact("Lag", h("span", { title: count(lag?.lag) }, `${records(lag?.lag, lag?.is_log_end_stale, lag?.log_end_at)}${lag?.lag_seconds ? `, ${timeLag(lag)}` : ""}`)),
      fact("Generation", count(group.generation)),
      fact("Protocol", [group.protocol_type, group.protocol_name].filter(Boolean).join(", ") || NONE),
      fact("Leader", group.leader ? member(group.leader) : NONE),
      fact("Coordinator", `${group.coordinator.node_id ?? "none"}, shard ${group.shard_id}`)),
  ];
}

const fact = (term, what) => h("div", {}, h("dt", {}, term), h("dd", {}, what));

/** Return the end of the notice's sentence, which changes every second: screen readers announce the rest of it only. */
function remaining({ waiting_for: names, waiting_until: until }) {
  const ms = left(until);
  return ms > 0 ? `, ${span(ms)} from now. After that ${names.length ? "the group continues without them" : "the rebalance completes"}.` : ", the deadline has passed.";
}

const REMOVABLE_MAX = 3;

/**
 * Return the notice of a rebalancing group: the awaited members, what they have to do, the deadline, and what an operator can do.
 * `ready` counts the other members, `awaited` has the ids of those that can be removed.
 */
function waiting([state, names, until, leader, ready, awaited], remove, shorten) {
  if (!["PreparingRebalance", "CompletingRebalance"].includes(state)) return [];
  const what = state === "PreparingRebalance" ? "to join" : "to sync";
  const limit = until ? [" until ", h("strong", {}, clock(until)), h("span", { "data-key": "rest", "aria-live": "off" })] : ".";
  return h("div", { class: "notice warn" },
    h("p", {}, h("strong", {}, names.length ? `Waiting for ${plural(names.length, "member")}` : "Waiting for new members"), names.length ? ` ${what}` : "", limit),
    names.length > 0 && h("ul", {}, names.map((name) => h("li", {}, member(name), state === "CompletingRebalance" && name === leader && " (leader: must send the assignment)"))),
    names.length > 0 && ready > 0 && h("p", { class: "muted" }, `${plural(ready, "other member")} ${ready === 1 ? "is" : "are"} blocked until then.`),
    names.length > 0 && h("div", { class: "buttons" },
      awaited.slice(0, REMOVABLE_MAX).map((id) => h("button", { type: "button", "data-key": `awaited-${id}`, title: id, onclick: () => remove(id) }, `Remove ${clientOf(id)}…`)),
      awaited.length > REMOVABLE_MAX && h("span", { class: "muted", "data-key": "awaited-more" }, `${count(awaited.length - REMOVABLE_MAX)} more can be removed in the list of members.`),
      h("button", { type: "button", "data-key": "shorten", onclick: shorten }, "Shorten rebalance timeout…")));
}
