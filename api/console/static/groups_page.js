// The list of groups; the node filters, sorts and paginates it.

import { groupPath, read } from "./api.js";
import { h, linkRow, redrawOnChange, replaceContent } from "./dom.js";
import { ago, clock, count, lag, left, NONE, plural, span } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { now } from "./now.js";
import { paging, pagingKeys } from "./paging.js";
import { poll } from "./poll.js";
import { badge, FLAPPING_REBALANCES, groupAddress, groupLink, member, shortTrigger, stateNow, STATES } from "./labels.js";

const EVERY_MS = 3_000;
const TYPING_MS = 150;
const ROWS = 50;
const DESCRIBED_MAX = 20;
const REBALANCING = ["PreparingRebalance", "CompletingRebalance"];
const SHOWN_STATES = [...REBALANCING, "Stable", "Empty"];
const COLUMNS = [
  ["attention", "State", "", "rebalancing groups first, then by rebalance rate"],
  ["group_id", "Group", "", "by name"],
  ["members", "Members", "number", "most members first"],
  ["lag", "Lag", "number", "highest lag first"],
  ["rebalances", "Rebalances, 1 h", "number", "most rebalances first"],
  ["since", "Since", "number", "longest in its state first"],
  [null, "Awaited members or last rebalance", "wide", ""],
];

/** Show the list of groups. */
export function groupsPage(main, _, query) {
  const view = { q: query.get("q") ?? "", states: query.getAll("state"), sort: query.get("sort") ?? "attention" };
  const waits = new Map();
  const field = h("input", { type: "search", id: "filter", value: view.q, placeholder: "group id contains", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/", oninput: typed });
  const strip = h("div", { class: "state-filter", role: "group", "aria-label": "Groups by state" });
  const table = h("div", { class: "scroll" });
  const foot = h("div", { class: "pagination" });
  replaceContent(main, h("h1", { class: "visually-hidden" }, "Groups"),
    h("div", { class: "row spread" },
      h("div", { class: "field inline" }, h("label", { for: "filter" }, "Filter ", h("kbd", {}, "/")), field), strip),
    table, foot);
  replaceContent(table, h("p", { class: "empty-state" }, "Loading…"));
  const drawStrip = redrawOnChange(strip, (counts, states) => states_(counts, states, pick));
  const drawTable = redrawOnChange(table, (groups, described) => (groups.length ? list(groups, described, view.sort, sort) : nothing(view)));
  const pages = paging(() => poller.now());
  const drawFoot = redrawOnChange(foot, below, { ages: false });
  let timer = 0;
  let requests = 0;
  let listed = null;
  let presses = 0;
  const poller = poll(load, EVERY_MS);
  pageKeys([
    ["/", "focus the filter", () => { field.focus(); field.select(); }],
    ...rowKeys(table),
    ...pagingKeys(foot),
    ["s", "next sort order", () => sort(nextOrder(view.sort))],
    ["x", "clear the filter", () => { field.value = ""; view.states = []; typed(); }],
  ]);
  field.addEventListener("keydown", (event) => event.key === "Enter" && enter());

  async function load() {
    const [ticket, q, number] = [++requests, view.q, pages.number()];
    const shown = await read("/v1/overview/groups", {
      q, state: view.states, sort: view.sort, limit: ROWS, cursor: pages.cursor(),
    }).catch((refusal) => {
      if (ticket === requests && !table.querySelector("table")) replaceContent(table, h("p", { class: "empty-state problem", role: "alert" }, refusal.message));
      throw refusal;
    });
    if (ticket !== requests) return;
    const draw = () => drawTable(shown.groups, shown.groups.map((group) => waits.get(group.group_id) ?? null));
    drawStrip(shown.counts, view.states);
    drawFoot(shown, number);
    draw();
    listed = q;
    if (presses && listed === field.value) openFirst();
    await loadAwaited(shown.groups);
    if (ticket === requests) draw();
  }

  /** Load the awaited members of rebalancing groups, which only the coordinator of each group knows. */
  async function loadAwaited(groups) {
    const rebalancing = groups.filter((group) => REBALANCING.includes(group.state)).slice(0, DESCRIBED_MAX);
    const results = await Promise.all(rebalancing.map((group) => read(groupPath(group.group_id), { limit: 1 }).catch(() => null)));
    waits.clear();
    results.filter(Boolean).forEach((group) => waits.set(group.group_id, { names: group.waiting_for, until: group.waiting_until }));
  }

  function typed() {
    presses = 0;
    clearTimeout(timer);
    timer = setTimeout(filter, TYPING_MS);
  }

  function filter() {
    clearTimeout(timer);
    view.q = field.value;
    remember();
  }

  /** Handle Enter in the filter: the first press focuses the first matching group, the second opens it; both wait for the filtered list. */
  function enter() {
    presses += 1;
    if (listed === field.value) openFirst();
    else if (view.q !== field.value) filter();
  }

  function openFirst() {
    const row = table.querySelector("[data-row]");
    if (presses > 1 && row) location.hash = row.dataset.row;
    else row?.focus();
    presses = 0;
  }

  function pick(state) {
    view.states = view.states.includes(state) ? view.states.filter((each) => each !== state) : [...view.states, state];
    remember();
  }

  function sort(order) {
    view.sort = order;
    remember();
  }

  function remember() {
    pages.restart();
    const search = viewQuery().toString();
    history.replaceState(null, "", `#/${search ? `?${search}` : ""}`);
    poller.now();
  }

  /** Return the view as the query of the address; defaults are omitted. */
  function viewQuery() {
    const parts = new URLSearchParams();
    if (view.q) parts.set("q", view.q);
    for (const state of view.states) parts.append("state", state);
    if (view.sort !== "attention") parts.set("sort", view.sort);
    return parts;
  }

  function below(shown, number) {
    const total = Object.entries(shown.counts).filter(([state]) => !view.states.length || view.states.includes(state))
      .reduce((sum, [, many]) => sum + many, 0);
    const first = (number - 1) * ROWS + 1;
    const range = shown.groups.length ? `${count(first)}–${count(first + shown.groups.length - 1)} of ${count(total)}` : `0 of ${count(total)}`;
    return [
      h("span", { role: "status" }, range),
      pages.buttons(number, shown.next_cursor),
    ];
  }

  return {
    stop: () => { poller.stop(); clearTimeout(timer); },
    isSameView: (parts) => parts.toString() === viewQuery().toString(),
  };
}

function nextOrder(order) {
  const orders = COLUMNS.map(([name]) => name).filter(Boolean);
  return orders[(orders.indexOf(order) + 1) % orders.length];
}

function states_(counts, states, pick) {
  return SHOWN_STATES.map((state) => {
    const { sign, name, tone } = STATES[state];
    const isPicked = states.includes(state);
    return h("button", { type: "button", class: `total ${counts[state] ? tone : "none"}`, "data-key": state, "aria-pressed": String(isPicked), onclick: () => pick(state) },
      h("b", {}, count(counts[state] ?? 0)), h("span", {}, h("span", { "aria-hidden": "true" }, sign), ` ${name}`));
  });
}

function nothing(view) {
  return h("div", { class: "empty-state" },
    view.q || view.states.length
      ? [h("p", {}, "No matching groups."), h("p", {}, "Press ", h("kbd", {}, "x"), " to clear the filter.")]
      : [h("p", {}, "No groups yet."), h("p", {}, "A group is created when its first consumer joins or commits.")]);
}

function list(groups, waits, order, sort) {
  return h("table", { class: "list", "aria-label": "Groups" },
    h("thead", {}, h("tr", {}, COLUMNS.map(([name, title, kind, hint]) =>
      h("th", { class: kind, scope: "col", "aria-sort": name === order ? "other" : null },
        name ? h("button", { type: "button", class: "sort", "data-key": `sort-${name}`, title: hint, onclick: () => sort(name) }, title, name === order && h("span", { "aria-hidden": "true" }, " ▾")) : title)))),
    h("tbody", {}, groups.map((group, index) => row(group, waits[index]))));
}

function row(group, wait) {
  const to = groupAddress(group.group_id);
  return linkRow(to, { "data-key": group.group_id, class: wait ? "rebalancing" : "" },
    h("td", {}, badge(stateNow(group.state, group.rebalances_last_hour))),
    h("td", { class: "id" }, groupLink(group.group_id)),
    h("td", { class: "number" }, count(group.member_count)),
    h("td", { class: "number", title: group.log_end_at ? `${count(group.lag)}; log ends last reported ${clock(group.log_end_at)} or later` : NONE }, lag(group.lag, group.is_lag_lower_bound, group.log_end_at)),
    h("td", { class: `number ${group.rebalances_last_hour >= FLAPPING_REBALANCES ? "critical" : ""}` }, group.rebalances_last_hour || h("span", { class: "muted" }, "0")),
    h("td", { class: "number", title: clock(group.state_since) }, coarse(group.state_since)),
    h("td", { class: "wide" }, wait?.names.length ? waiting(wait) : last(group)));
}

/** Return the time since a moment in whole seconds, its largest unit only. */
function coarse(moment) {
  const ms = now() - new Date(moment);
  return ms < 1_000 ? "now" : span(Math.floor(ms / 1_000) * 1_000).split(" ").slice(0, 2).join(" ");
}

function waiting({ names, until }) {
  const shown = names.slice(0, 2).map((name, index) => [index ? ", " : "", member(name)]);
  return h("strong", {}, "Waiting for ", shown, names.length > 2 && ` and ${plural(names.length - 2, "other")}`,
    until && left(until) > 0 && ` until ${clock(until)}`);
}

function last(group) {
  if (group.rebalance_started_at) return `Rebalancing since ${clock(group.rebalance_started_at)}: ${shortTrigger(group.rebalance_trigger)}`;
  if (!group.last_rebalance_at) return h("span", { class: "muted" }, NONE);
  return `${shortTrigger(group.last_rebalance_trigger)}, ${ago(group.last_rebalance_at)}`;
}
