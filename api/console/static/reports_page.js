// The newest reports of the daily jobs: groups that rebalance most, unbalanced assignments, and advised timeouts; the worst come first.

import { read } from "./api.js";
import { h, redrawOnChange, replaceContent } from "./dom.js";
import { clock, count, NONE, span } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { groupAddress, groupLink, plain } from "./labels.js";
import { poll } from "./poll.js";

const EVERY_MS = 60_000;
const READ_MAX = 1_000;
const SHOWN_MAX = 25;

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const worst = (text) => h("strong", { class: "critical" }, text);

/** A report: its endpoint and job, the order of its groups, which of them need attention, and its columns as [title, cell of a report]. */
const REPORTS = [
  {
    subject: "rebalances", title: "Rebalance frequency", job: "rebalance_frequency_report",
    order: (one, other) => other.rebalancing_share - one.rebalancing_share || other.rebalances - one.rebalances,
    matters: (report) => report.is_churning || report.rebalances > 0,
    none: "No group rebalanced.",
    columns: [
      ["Rebalances", (report) => (report.is_churning ? worst(`${count(report.rebalances)}, still rebalancing`) : count(report.rebalances))],
      ["Time rebalancing", (report) => `${span(report.rebalancing_ms)} (${percent(report.rebalancing_share)})`],
      ["95 % took up to", (report) => span(report.took_p95_ms)],
      ["Evicted", (report) => count(report.evicted)],
      ["of these back within a minute", (report) => count(report.spuriously_evicted)],
      ["Waited longest for", (report) => waitedFor(report)],
    ],
  },
  {
    subject: "assignments", title: "Assignment balance", job: "assignment_balance_audit",
    order: (one, other) => one.score - other.score || other.idle_members - one.idle_members,
    matters: (report) => report.has_better || report.idle_members > 0 || report.unassigned > 0,
    none: "Every assignment is as even as the subscriptions allow, and every member owns a partition.",
    columns: [
      ["Score", (report) => (report.score < 50 ? worst(report.score) : count(report.score))],
      ["Trend", (report) => (report.trend === "first" ? NONE : `${report.trend}, before: ${count(report.score_before)}`)],
      ["Most partitions of a member", (report) => `${count(report.partitions_max)}, could be ${count(report.best_partitions_max)}`],
      ["Idle members", (report) => `${count(report.idle_members)} of ${count(report.members)}`],
      ["Unassigned partitions", (report) => count(report.unassigned)],
      ["Moved, needed", (report) => `${count(report.moved)}, ${count(report.moves_needed)}`],
    ],
  },
  {
    subject: "timeouts", title: "Timeout advice", job: "timeout_advice",
    order: (one, other) => changes(other).length - changes(one).length,
    matters: (report) => changes(report).length > 0,
    none: "No timeout should be changed.",
    columns: [
      ["Setting", (report) => lines(changes(report).map(({ key }) => key))],
      ["Now → advised", (report) => lines(changes(report).map(({ from, to }) => `${from === null ? "set by each client" : span(from)} → ${span(to)}`))],
      ["Confidence", (report) => lines(changes(report).map(({ confidence }) => plain(confidence)))],
      ["Reason", (report) => lines(changes(report).map(({ reason }) => reason))],
    ],
  },
];
const ADVISED = [["session", "session_timeout_ms"], ["rebalance", "rebalance_timeout_ms"], ["initial_delay", "group_initial_rebalance_delay_ms"]];

/** Show the newest reports. */
export function reportsPage(main) {
  const bodies = REPORTS.map(() => h("div", {}, h("p", { class: "muted" }, "Loading…")));
  replaceContent(main, h("h1", {}, "Reports"), REPORTS.map(({ subject, title }, index) =>
    h("section", { "aria-labelledby": `${subject}-title` }, h("h2", { id: `${subject}-title` }, title), bodies[index])));
  const draw = REPORTS.map((report, index) => redrawOnChange(bodies[index], (page) => section(report, page)));
  const poller = poll(async () => {
    const pages = await Promise.all(REPORTS.map(({ subject }) => read(`/v1/reports/${subject}`, { limit: READ_MAX })));
    pages.forEach((page, index) => draw[index](page));
  }, EVERY_MS);
  pageKeys(rowKeys(() => [...main.querySelectorAll("[data-row]")], (row) => (location.hash = row.dataset.row)));
  return { stop: poller.stop };
}

function section(report, { reports, next_cursor: next }) {
  if (!reports.length) return h("p", { class: "empty-state" }, `No report yet: the DAG ${report.job} writes one a day; muster job ${report.job} writes one now.`);
  const found = reports.filter(report.matters).sort(report.order);
  const newest = reports.reduce((last, each) => (each.interval_end > last.interval_end ? each : last));
  const among = `${next ? "the first " : ""}${count(reports.length)} ${reports.length === 1 ? "group" : "groups"}`;
  return [
    h("p", { class: "muted" }, `${found.length > SHOWN_MAX ? `The worst ${SHOWN_MAX} of ${count(found.length)}` : count(found.length)} of ${among} with a report; the newest is of ${clock(newest.interval_start)} to ${clock(newest.interval_end)}.`),
    found.length ? table(report, found.slice(0, SHOWN_MAX)) : h("p", { class: "empty-state" }, report.none),
  ];
}

function table({ title, columns }, reports) {
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": title },
    h("thead", {}, h("tr", {}, ["Group", ...columns.map(([name]) => name)].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, reports.map((each) => h("tr", { tabindex: "-1", "data-row": groupAddress(each.group_id), "data-key": `${title} ${each.group_id}` },
      h("td", { class: "id" }, groupLink(each.group_id)), columns.map(([, cell]) => h("td", {}, cell(each))))))));
}

/** Return the settings that the advice would change. */
function changes(report) {
  return ADVISED.filter(([name]) => report[`${name}_verdict`] === "change").map(([name, key]) => ({
    key, from: report[`${name}_present_ms`], to: report[`${name}_advised_ms`], confidence: report[`${name}_confidence`], reason: report[`${name}_reason`],
  }));
}

function waitedFor(report) {
  if (report.waited_for_ms === null) return NONE;
  return `${report.waited_for_instance_id ?? report.waited_for_client_id}, ${span(report.waited_for_ms)}`;
}

const lines = (texts) => texts.map((text, index) => [index > 0 && h("br"), text]);
