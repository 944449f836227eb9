// The cluster at a glance: groups by state, rebalances and evictions by hour, the highest lags, what expires next, and the last maintenance.

import { read } from "./api.js";
import { h, redrawOnChange, replaceContent } from "./dom.js";
import { ago, clock, count, lag, plural } from "./format.js";
import { FLAPPING_REBALANCES, groupLink, plain, stateNow, STATES } from "./labels.js";
import { allOf, poll } from "./poll.js";
import { statusBadge } from "./runs_page.js";
import { sparkline } from "./sparkline.js";

const EVERY_MS = 15_000;
const GROUPS = 5;
const RUNS = 5;
const HEIGHT_PX = 40;
/** The states of the first card, each with the address of its groups. */
const SHOWN_STATES = [
  ["PreparingRebalance", "#/?state=PreparingRebalance"], ["CompletingRebalance", "#/?state=CompletingRebalance"],
  ["Flapping", "#/?state=Stable&sort=rebalances"], ["Stable", "#/?state=Stable"], ["Empty", "#/?state=Empty"],
];

/** Show the overview of the cluster. */
export function overviewPage(main) {
  const body = h("div", { class: "cards" }, h("p", { class: "muted" }, "Loading…"));
  replaceContent(main, h("h1", {}, "Overview"), body);
  const draw = redrawOnChange(body, cards);
  const groups = (sort) => read("/v1/overview/groups", { sort, limit: GROUPS });
  const loads = { attention: () => groups("attention"), behind: () => groups("lag"), activity: () => read("/v1/overview/activity"), maintenance: () => read("/v1/maintenance/runs") };
  const loaded = {};
  const load = async (name) => {
    loaded[name] = await loads[name]();
    draw(loaded);
  };
  const poller = poll(() => allOf(...Object.keys(loads).map(load)), EVERY_MS);
  return { stop: poller.stop };
}

/** Return the cards; those whose requests were not answered yet say so. */
function cards({ attention, behind, activity, maintenance }) {
  return [
    card("Groups", "#/", attention, ({ counts }) => states(counts, activity?.flapping_groups ?? null)),
    card("Rebalances, 24 h", "#/?sort=rebalances", activity, ({ hours }) => bars("rebalances", hours, "rebalances")),
    card("Evictions, 24 h", "#/reports", activity, ({ hours }) => bars("evictions", hours, "evictions")),
    card("Need attention", "#/", attention, ({ groups }) => list(groups.filter(isUnsettled), (group) => `${STATES[stateOf(group)].name}, ${plural(group.rebalances_last_hour, "rebalance")} in 1 h`, "No group is rebalancing or flapping.")),
    card("Highest lag", "#/?sort=lag", behind, ({ groups }) => list(groups.filter((group) => group.lag), (group) => `${lag(group.lag, group.is_lag_lower_bound, group.log_end_at)} records`, "No known lag.")),
    card("Offsets that expire", null, activity, ({ forecast }) => (forecast
      ? [h("p", {}, h("strong", {}, count(forecast.within_a_day)), " within a day, ", h("strong", {}, count(forecast.within_a_week)), ` within a week, the next ${clock(forecast.next_expiry_at)}; as of ${clock(forecast.as_of)}.`),
        list(forecast.groups, (group) => `${count(group.within_a_week)} within a week, the next ${clock(group.next_expiry_at)}`)]
      : h("p", { class: "muted" }, "None within a week, or no forecast yet: the DAG offset_retention writes one."))),
    card("Last maintenance", "#/maintenance", maintenance, ({ runs }) => (runs.length
      ? h("ul", { class: "plain" }, runs.slice(0, RUNS).map((run) => h("li", {}, statusBadge(run.status), " ", h("a", { href: `#/maintenance/${run.run_id}` }, plain(run.kind)), run.counts.candidates !== undefined && `, ${plural(run.counts.candidates, "candidate")}`, `, ${ago(run.as_of)}`)))
      : h("p", { class: "muted" }, "No runs yet."))),
  ];
}

/** Return the number of groups in each state; without that of flapping groups, the Stable ones include them. */
function states(counts, flapping) {
  const shown = { ...counts, Flapping: flapping, Stable: Math.max((counts.Stable ?? 0) - flapping, 0) };
  return h("ul", { class: "plain" }, SHOWN_STATES.map(([state, href]) => h("li", {},
    h("a", { href }, h("strong", {}, count(shown[state] === undefined ? 0 : shown[state])), ` ${STATES[state].name}`))));
}

const isUnsettled = (group) => group.rebalances_last_hour >= FLAPPING_REBALANCES || STATES[group.state].tone === "warn";

const stateOf = (group) => stateNow(group.state, group.rebalances_last_hour);

const card = (title, href, answer, content) =>
  h("section", { class: "card" }, h("h2", {}, href ? h("a", { href }, title) : title), answer ? content(answer) : h("p", { class: "muted" }, "Loading…"));

function list(groups, words, none) {
  if (!groups.length) return h("p", { class: "muted" }, none);
  return h("ul", { class: "plain groups" }, groups.map((group) => h("li", {}, groupLink(group.group_id), h("span", {}, words(group)))));
}

/** Return a bar for each hour, with the sum of the day; a screen reader gets the sum and the highest hour. */
function bars(key, hours, word) {
  const most = Math.max(...hours.map((each) => each[key]));
  const sum = hours.reduce((total, each) => total + each[key], 0);
  const label = `${count(sum)} ${word} in 24 hours, at most ${count(most)} in an hour`;
  return [
    h("p", {}, h("strong", {}, count(sum)), most > 0 && `, at most ${count(most)} in an hour`),
    sparkline(hours.map((each) => ({ name: `${clock(each.hour)}: ${count(each[key])}`, value: each[key] })), { label, most, height: HEIGHT_PX }),
    h("p", { class: "axis", "aria-hidden": "true" }, h("span", {}, "24 h ago"), h("span", {}, "now")),
  ];
}
