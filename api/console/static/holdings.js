// Who holds what, as a map: a row a member, a cell a partition, and the darker the cell, the further it is behind.

import { h } from "./dom.js";
import { clock, compact, count, lag, plural, span } from "./format.js";
import { member } from "./words.js";

const LEVELS = 5;
const WITH_TEXT_MAX = 400;

/** Draw the map of every topic; `members` are [member id, client id]. */
export function holdings(members, partitions) {
  if (!partitions?.length) return h("p", { class: "blank" }, "Nobody holds a partition, and nothing is committed.");
  const most = Math.max(...partitions.map((each) => each.lag ?? 0), 1);
  const topics = [...Map.groupBy(partitions, (each) => each.topic)];
  return [scale(most), topics.map(([topic, all]) => map(topic, all, members, most, partitions.length > WITH_TEXT_MAX))];
}

function scale(most) {
  const limits = Array.from({ length: LEVELS }, (_, level) => (level === 0 ? 0 : Math.round(most ** (level / (LEVELS - 1)))));
  return h("ul", { class: "legend" }, h("li", {}, "In each cell the partition, and below it the records it is behind:"),
    limits.map((limit, level) => limit !== limits[level + 1] && h("li", {}, h("span", { class: `swatch level${level}` }), level === 0 ? " none" : ` to ${compact(limit)}`)),
    h("li", {}, h("span", { class: "swatch unknown" }), " not known"));
}

function map(topic, partitions, members, most, isDense) {
  const byOwner = Map.groupBy(partitions, (each) => each.member_id);
  const owners = [...members.map(([id]) => id), null];
  const behind = partitions.reduce((sum, each) => sum + (each.lag ?? 0), 0);
  return h("div", { class: "map" }, h("h3", {}, h("span", { class: "id" }, topic), " ", h("small", {}, `${plural(partitions.length, "partition")}, ${count(behind)} behind`)),
    owners.filter((owner) => byOwner.has(owner) || owner !== null).map((owner) => h("div", { class: "owner" },
      h("div", { class: "name" }, owner === null ? h("em", {}, "nobody") : member(owner)),
      h("ul", { class: isDense ? "cells dense" : "cells" }, byOwner.get(owner)?.map((each) => cell(each, most)) ?? h("li", { class: "faint" }, "idle: holds nothing")))));
}

function cell(each, most) {
  const level = each.lag === null ? "unknown" : `level${levelOf(each.lag, most)}`;
  const long = `partition ${each.partition}: ${each.lag === null && !each.is_log_end_stale ? "lag not known" : `${lag(each.lag, each.is_log_end_stale, each.log_end_at, count)} behind`}${each.lag_seconds ? `, ${span(each.lag_seconds * 1000)}` : ""}; committed ${clock(each.committed_at)}`;
  return h("li", { class: `cell ${level}`, title: long }, h("b", {}, each.partition), h("span", {}, each.lag === null ? "?" : compact(each.lag)));
}

/** Levels are steps of the logarithm: a lag of ten and one of a million are both to be seen. */
function levelOf(lag, most) {
  if (lag <= 0) return 0;
  return Math.min(LEVELS - 1, 1 + Math.floor(((LEVELS - 1) * Math.log(lag)) / Math.log(most + 1)));
}
