// One topic: the groups that read it with their lag, and its partitions with their log ends.

import { read, topicPath } from "./api.js";
import { h, linkRow, redrawOnChange, replaceContent, tableHead } from "./dom.js";
import { ago, clock, count, lag, NONE, plural } from "./format.js";
import { pageKeys, rowKeys } from "./keys.js";
import { badge, groupAddress, groupLink, stateNow } from "./labels.js";
import { poll } from "./poll.js";

const EVERY_MS = 5_000;
const INITIAL_ROWS = 100;
const PARTITIONS_MAX = 10_000; // of one response
const GROUP_TITLES = [["Group", ""], ["State", ""], ["Members", "number"], ["Reads it as", ""], ["Partitions", "number"], ["Lag", "number"], ["Last commit", ""]];
const PARTITION_TITLES = [["Partition", "number"], ["Log end offset", "number"], ["Reported", ""], ["Groups with a committed offset", "number"]];

/** Show one topic. */
export function topicPage(main, [topic]) {
  const facts = h("div", {});
  const groups = h("div", {}, h("p", { class: "muted" }, "Loading…"));
  const partitions = h("div", {}, h("p", { class: "muted" }, "Loading…"));
  const sections = h("div", {},
    h("section", { "aria-labelledby": "groups-title" }, h("h2", { id: "groups-title" }, "Groups that read it"), groups),
    h("section", { "aria-labelledby": "partitions-title" }, h("h2", { id: "partitions-title" }, "Partitions"), partitions));
  let isExpanded = false;
  replaceContent(main, h("p", { class: "breadcrumb" }, h("a", { href: "#/topics" }, "Topics")), h("h1", { class: "id" }, topic), facts, sections);
  const drawFacts = redrawOnChange(facts, heading);
  const drawGroups = redrawOnChange(groups, groupsTable);
  const drawPartitions = redrawOnChange(partitions, (found, isWhole) => partitionsTable(found, isWhole, () => { isExpanded = true; poller.now(); }));
  const poller = poll(load, EVERY_MS);
  pageKeys([
    ["u", "back to topics", () => (location.hash = "#/topics")],
    ...rowKeys(groups),
  ]);

  async function load() {
    try {
      const found = await read(topicPath(topic));
      sections.hidden = false;
      drawFacts(found);
      drawGroups(found.groups, found.group_count);
      drawPartitions(found.partitions, isExpanded);
    } catch (refusal) {
      if (refusal.status === 404) {
        sections.hidden = true;
        drawFacts(null, refusal.message);
      }
      throw refusal;
    }
  }

  return { stop: poller.stop };
}

function heading(topic, problem) {
  if (!topic) return h("p", { class: "notice bad", role: "alert" }, problem);
  return h("dl", { class: "facts" },
    fact("Partitions", topic.partition_count === null ? "no topic metadata" : count(topic.partition_count)),
    topic.log_start_offset !== null && fact("Log start offset", count(topic.log_start_offset)),
    fact("Groups", count(topic.group_count)),
    fact("Lag of all groups", lag(topic.lag, topic.is_lag_lower_bound, topic.log_end_at, count)));
}

const fact = (term, what) => h("div", {}, h("dt", {}, term), h("dd", {}, what));

function groupsTable(groups, total) {
  if (!groups.length) return h("p", { class: "empty-state" }, "No group reads this topic.");
  return [
    h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Groups" }, tableHead(GROUP_TITLES), h("tbody", {}, groups.map((group) =>
      linkRow(groupAddress(group.group_id), { "data-key": group.group_id },
        h("td", { class: "id" }, groupLink(group.group_id)),
        h("td", {}, group.state === null ? h("span", { class: "muted" }, "no members") : badge(stateNow(group.state, group.rebalances_last_hour))),
        h("td", { class: "number" }, count(group.member_count)),
        h("td", {}, group.is_subscribed ? "subscriber" : h("span", { class: "muted", title: "has committed offsets; no member subscribes to the topic" }, "not subscribed")),
        h("td", { class: "number", title: "partitions with a committed offset" }, count(group.partition_count)),
        h("td", { class: "number" }, lag(group.lag, group.is_lag_lower_bound, group.log_end_at, count)),
        h("td", { title: group.committed_at }, group.committed_at ? `${clock(group.committed_at)}, ${ago(group.committed_at)}` : NONE)))))),
    total > groups.length && h("p", { class: "muted" }, `Only ${count(groups.length)} of ${plural(total, "group")} are listed, the highest lag first.`),
  ];
}

function partitionsTable(partitions, isWhole, expand) {
  if (!partitions.length) return h("p", { class: "empty-state" }, "No log end and no committed offset is known.");
  const shown = isWhole ? partitions : partitions.slice(0, INITIAL_ROWS);
  return [
    h("div", { class: "scroll" }, h("table", { class: "counts", "aria-label": "Partitions" }, tableHead(PARTITION_TITLES), h("tbody", {}, shown.map((each) =>
      h("tr", {}, h("td", { class: "number" }, each.partition), h("td", { class: "number" }, count(each.log_end_offset)),
        h("td", { title: each.log_end_at }, each.log_end_at ? `${clock(each.log_end_at)}, ${ago(each.log_end_at)}` : NONE), h("td", { class: "number" }, count(each.group_count))))))),
    shown.length < partitions.length && h("button", { type: "button", class: "quiet", onclick: expand }, `Show all ${plural(partitions.length, "partition")}`),
    partitions.length === PARTITIONS_MAX && h("p", { class: "muted" }, `No more than ${count(PARTITIONS_MAX)} partitions are listed.`),
  ];
}
