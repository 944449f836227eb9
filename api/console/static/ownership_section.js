// Partition ownership as a map: a row per member, a cell per partition, darker with more lag.

import { h } from "./dom.js";
import { clock, compact, count, lag, plural, timeLag, totalLag } from "./format.js";
import { member, topicLink } from "./labels.js";

const LEVELS = 5;
const WITH_TEXT_MAX = 400;

/** Return the map of every topic; `members` are [member id, client id]. */
export function ownershipMap(members, partitions) {
  if (!partitions?.length) return h("p", { class: "empty-state" }, "No partitions assigned and no offsets committed.");
  const most = Math.max(...partitions.map((each) => each.lag ?? 0), 1);
  const limits = limitsOf(most);
  const topics = [...Map.groupBy(partitions, (each) => each.topic)];
  return [scale(limits), topics.map(([topic, all]) => map(topic, all, members, limits, partitions.length > WITH_TEXT_MAX))];
}

/** Return the highest lag of each level: the scale is logarithmic, so that a lag of ten and one of a million are both visible. */
const limitsOf = (most) => Array.from({ length: LEVELS }, (_, level) => (level === 0 ? 0 : Math.round(most ** (level / (LEVELS - 1)))));

function scale(limits) {
  return h("ul", { class: "legend" }, h("li", {}, "Each cell: partition, and below it the lag in records:"),
    limits.map((limit, level) => limit !== limits[level - 1] && h("li", {}, h("span", { class: `swatch level${level}` }), level === 0 ? " none" : ` to ${compact(limit)}`)),
    h("li", {}, h("span", { class: "swatch unknown" }), " unknown"));
}

function map(topic, partitions, members, limits, isDense) {
  const byOwner = Map.groupBy(partitions, (each) => each.member_id);
  const owners = [...members.map(([id]) => id), null];
  return h("div", { class: "map" }, h("h3", {}, h("span", { class: "id" }, topicLink(topic)), " ", h("small", {}, `${plural(partitions.length, "partition")}, lag ${totalLag(partitions)}`)),
    owners.filter((owner) => byOwner.has(owner) || owner !== null).map((owner) => h("div", { class: "owner" },
      h("div", { class: "name" }, owner === null ? h("em", {}, "unassigned") : member(owner)),
      h("ul", { class: isDense ? "cells dense" : "cells" }, byOwner.get(owner)?.map((each) => cell(each, limits)) ?? h("li", { class: "muted" }, "idle: no partitions")))));
}

function cell(each, limits) {
  const level = each.lag === null ? "unknown" : `level${limits.findIndex((limit) => each.lag <= limit)}`;
  const long = `partition ${each.partition}: ${each.lag === null && !each.is_log_end_stale ? "lag unknown" : `${lag(each.lag, each.is_log_end_stale, each.log_end_at, count)} records behind`}${each.lag_seconds ? `, ${timeLag(each)}` : ""}; committed ${clock(each.committed_at)}`;
  return h("li", { class: `cell ${level}`, title: long }, h("b", {}, each.partition), h("span", {}, each.lag === null ? "?" : compact(each.lag)));
}
