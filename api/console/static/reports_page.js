// The newest reports of the daily jobs, with the trend of each group: groups that rebalance most, unbalanced assignments, and advised timeouts; the worst come first.

import { read, readPages } from "./api.js";
import { h, linkRow, redrawOnChange, replaceContent, tableHead } from "./dom.js";
import { clock, count, NONE, plural, span } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { groupAddress, groupLink, plain } from "./labels.js";
import { poll } from "./poll.js";
import { sparkline } from "./sparkline.js";

const EVERY_MS = 300_000;
const PAGE = 1_000;
const READ_MAX = 10_000;
const DAY_MS = 86_400_000;
const SHOWN_MAX = 25;
const TREND_DAYS = 14;
const TREND_POINTS_MAX = 30;
const TREND_PX = 20;

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;
const worst = (text) => h("strong", { class: "critical" }, text);

const ADVISED = [["session", "session_timeout_ms"], ["rebalance", "rebalance_timeout_ms"], ["initial_delay", "group_initial_rebalance_delay_ms"]];

/** A report: its endpoint and job, the order of its groups, which of them need attention, its columns as [title, class, cell of a report], and the values whose trends are shown, each with that of a full bar (by default the highest). */
const REPORTS = [
  {
    subject: "rebalances", title: "Rebalance frequency", job: "rebalance_frequency_report",
    order: (one, other) => other.rebalancing_share - one.rebalancing_share || other.rebalances - one.rebalances,
    matters: (report) => report.is_churning || report.rebalances > 0,
    none: "No group rebalanced.",
    trends: [{ title: "Rebalances", value: (report) => report.rebalances }],
    columns: [
      ["Rebalances", "number", (report) => (report.is_churning ? worst(`${count(report.rebalances)}, still rebalancing`) : count(report.rebalances))],
      ["Time rebalancing", "number", (report) => `${span(report.rebalancing_ms)} (${percent(report.rebalancing_share)})`],
      ["95 % took up to", "number", (report) => span(report.took_p95_ms)],
      ["Evicted", "number", (report) => count(report.evicted)],
      ["Of these soon back", "number", (report) => count(report.spuriously_evicted)],
      ["Waited longest for", "", (report) => waitedFor(report)],
    ],
  },
  {
    subject: "assignments", title: "Assignment balance", job: "assignment_balance_audit",
    order: (one, other) => one.score - other.score || other.idle_members - one.idle_members,
    matters: (report) => report.has_better || report.idle_members > 0 || report.unassigned > 0,
    none: "Every assignment is as even as the subscriptions allow, and every member owns a partition.",
    trends: [{ title: "Score", value: (report) => report.score, most: 100 }, { title: "Idle members", value: (report) => report.idle_members }],
    columns: [
      ["Score", "number", (report) => (report.score < 50 ? worst(report.score) : count(report.score))],
      ["Since the last audit", "number", (report) => (report.trend === "first" ? NONE : `${report.trend} ${report.trend === "same" ? "as" : "than"} ${count(report.score_before)}`)],
      ["Most partitions of a member", "number", (report) => `${count(report.partitions_max)}, could be ${count(report.best_partitions_max)}`],
      ["Idle members", "number", (report) => `${count(report.idle_members)} of ${count(report.members)}`],
      ["Unassigned partitions", "number", (report) => count(report.unassigned)],
      ["Partitions moved", "number", (report) => `${count(report.moved)}, ${count(report.moves_needed)} needed`],
    ],
  },
  {
    subject: "timeouts", title: "Timeout advice", job: "timeout_advice",
    order: (one, other) => changes(other).length - changes(one).length,
    matters: (report) => changes(report).length > 0,
    none: "No timeout should be changed.",
    trends: [{ title: "Settings to change", value: (report) => changes(report).length, most: ADVISED.length }],
    columns: [
      ["Setting", "", (report) => lines(changes(report).map(({ key }) => key))],
      ["Now → advised", "action", (report) => lines(changes(report).map(({ from, to }) => `${from === null ? "set by each client" : span(from)} → ${span(to)}`))],
      ["Confidence", "", (report) => lines(changes(report).map(({ confidence }) => plain(confidence)))],
      ["Reason", "", (report) => lines(changes(report).map(({ key, reason }, _, all) => (all.length > 1 ? `${key}: ${reason}` : reason)))],
    ],
  },
];

/** Show the newest reports. */
export function reportsPage(main) {
  const bodies = REPORTS.map(() => h("div", {}, h("p", { class: "muted" }, "Loading…")));
  replaceContent(main, h("h1", {}, "Reports"), REPORTS.map(({ subject, title }, index) =>
    h("section", { "aria-labelledby": `${subject}-title` }, h("h2", { id: `${subject}-title` }, title), bodies[index])));
  const draw = REPORTS.map((report, index) => redrawOnChange(bodies[index], (page, days) => section(report, page, days)));
  const poller = poll(async () => {
    await Promise.all(REPORTS.map(async (report, index) => {
      const { reports, next_cursor: next } = await readPages(`/v1/reports/${report.subject}`, "reports", READ_MAX, { limit: PAGE });
      const newest = ofNewestInterval(reports);
      draw[index]({ reports: newest, isCut: Boolean(next) }, await readDays(report, newest));
    }));
  }, EVERY_MS);
  pageKeys(rowKeys(main));
  return { stop: poller.stop };
}

/** Return the reports of the newest interval. The newest of a group that is deleted, or was at rest since, describes another time. */
function ofNewestInterval(reports) {
  const end = reports.reduce((last, each) => (each.interval_end > last ? each.interval_end : last), "");
  return reports.filter((each) => each.interval_end === end);
}

/** Return the reports that need attention, the worst first. */
const worstFirst = (report, reports) => reports.filter(report.matters).sort(report.order);

/** Return the reports of the last days of the groups that are shown: the newest intervals, and days without one, the oldest first, and for each group its report of each of them, or null. */
async function readDays(report, reports) {
  const shown = worstFirst(report, reports).slice(0, SHOWN_MAX).map((each) => each.group_id);
  if (!shown.length) return null;
  const query = new URLSearchParams([["days", TREND_DAYS], ["limit", PAGE], ...shown.map((groupId) => ["group_id", groupId])]);
  const history = (await read(`/v1/reports/${report.subject}?${query}`)).reports;
  const starts = withMissingDays([...new Set(history.map((each) => each.interval_start))].slice(0, TREND_POINTS_MAX).sort());
  const found = Map.groupBy(history, (each) => each.group_id);
  const reportAt = (groupId, start) => found.get(groupId)?.find((each) => each.interval_start === start) ?? null;
  return { starts, groups: shown.map((groupId) => [groupId, starts.map((start) => reportAt(groupId, start))]) };
}

/** Return the starts of intervals, the oldest first, and those of the days between them that have no report. */
function withMissingDays(starts) {
  return starts.flatMap((start, index) => {
    const days = Math.round((Date.parse(starts[index + 1] ?? start) - Date.parse(start)) / DAY_MS);
    return [start, ...Array.from({ length: Math.max(0, days - 1) }, (_, day) => new Date(Date.parse(start) + (day + 1) * DAY_MS).toISOString())];
  });
}

function section(report, { reports, isCut }, days) {
  if (!reports.length) return h("p", { class: "empty-state" }, `No report yet: the DAG ${report.job} writes one a day; muster job ${report.job} writes one now.`);
  const found = worstFirst(report, reports);
  const [newest] = reports;
  const among = `${plural(reports.length, "group")} with a report${isCut ? `, among the first ${count(READ_MAX)} by name` : ""}`;
  return [
    h("p", { class: "muted" }, `${found.length > SHOWN_MAX ? `The worst ${SHOWN_MAX} of ${count(found.length)}` : count(found.length)} of ${among}; it covers ${span(Date.parse(newest.interval_end) - Date.parse(newest.interval_start))} from ${clock(newest.interval_start)}.`),
    found.length ? table(report, found.slice(0, SHOWN_MAX), days) : h("p", { class: "empty-state" }, report.none),
  ];
}

function table({ title, columns, trends }, reports, days) {
  const [first, ...rest] = columns;
  const shown = [first, ...trends.map((trend) => [`${trend.title}, ${TREND_DAYS} days`, "", (report) => trendOf(trend, days, report.group_id)]), ...rest];
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": title },
    tableHead([["Group"], ...shown]),
    h("tbody", {}, reports.map((each) => row(title, each, shown)))));
}

function row(title, report, columns) {
  const to = groupAddress(report.group_id);
  return linkRow(to, { "data-key": `${title} ${report.group_id}` },
    h("td", { class: "id" }, groupLink(report.group_id)), columns.map(([, kind, cell]) => h("td", { class: kind }, cell(report))));
}

/** Return the trend of a group as a sparkline; its accessible name has the numbers. */
function trendOf({ title, value, most }, { starts, groups }, groupId) {
  const values = (groups.find(([each]) => each === groupId)?.[1] ?? []).map((report) => report && value(report));
  if (values.every((each) => each === null)) return NONE;
  const points = values.map((each, index) => ({ value: each, name: `${clock(starts[index])}: ${count(each)}` }));
  const label = `${title}, the oldest first: ${values.map((each) => (each === null ? "no report" : count(each))).join(", ")}`;
  return sparkline(points, { label, most: most ?? Math.max(...values, 1), height: TREND_PX });
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
