// Counts of a maintenance run in words: its size, and its candidates by reason and by outcome.

import { h, tableHead } from "./dom.js";
import { count } from "./format.js";
import { plain } from "./labels.js";

const SIZE = new Map([
  ["candidates", ["Candidates", "what the run proposes to change; each is checked again when the run is applied"]],
  ["of", ["Examined", "all offsets, groups or days from which the candidates were chosen"]],
  ["groups", ["Groups", "groups with at least one candidate"]],
  ["largest_group", ["Largest group", "candidates of the group with the most of them"]],
  ["largest_group_permille", ["Largest share of a group", "candidates as a share of all offsets of their group, in the group where it is largest; small groups are left out"]],
  ["rows", ["Rows", "rows of history in the copied days"]],
  ["unverified", ["Copies that did not match", "days of history that are not proposed; the next run copies them again"]],
]);
const REASONS = new Map([
  ["group_empty", "the group has had no members for longer than its retention"],
  ["simple_group", "the consumer uses no group membership, and has committed nothing for longer than the retention"],
  ["topic_unsubscribed", "no member subscribes to the topic any more, and the last commit is older than the retention"],
  ["own_expiry", "the offset has an expiry time of its own, which has passed"],
  ["topic_deleted", "the topic was deleted"],
  ["undo", "the offset was changed by a change that is undone"],
  ["empty_without_offsets", "the group has no members and no offsets"],
]);
const OUTCOMES = new Map([
  ["undecided", "not checked again yet"],
  ["expired", "removed and archived: the offset was still due"],
  ["removed", "the offset was removed"],
  ["restored", "the offset was restored"],
  ["retired", "the group was deleted"],
  ["dropped", "the day was dropped from Postgres; the archive has it"],
  ["committed_since", "kept: committed again since the proposal"],
  ["not_due", "kept: no longer due by the present rule, settings and state of the group"],
  ["already_gone", "nothing to do: removed by something else since the proposal"],
  ["newer_there", "kept: committed or reset since the change that is undone"],
  ["gone_since", "not restored: deleted since the change that is undone"],
  ["group_active", "kept: members of the group read the topic, or may"],
  ["no_such_partition", "not restored: the topic has fewer partitions now"],
  ["not_empty", "kept: the group has members"],
  ["woke_since", "kept: the group was active since the proposal"],
  ["has_offsets", "kept: the group has offsets"],
  ["being_joined", "kept: a client is joining the group"],
  ["changed_since", "kept: rows were added or deleted since the copy was made"],
  ["still_open", "kept: the day is not over"],
  ["copy_not_found", "kept: the node finds no copy with as many rows"],
  ["unknown_partition", "kept: Postgres has no such partition"],
]);

const capital = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** Return the meaning of a reason or an outcome; "" if it is not known. */
export const meaning = (key) => REASONS.get(key) ?? OUTCOMES.get(key) ?? "";

/** Return the candidates of a run by reason and outcome in a few words. */
export function countsLine(counts) {
  return Object.entries(counts).filter(([key]) => !SIZE.has(key)).map(([key, number]) => `${capital(plain(key))}: ${count(number)}`).join(", ");
}

/** Return the counts of a run as a table: the count, its number, and what it means. */
export function countsTable(counts) {
  const found = new Map(Object.entries(counts));
  if (!found.size) return null;
  const named = (words) => [...words.keys()].filter((key) => found.has(key));
  const others = [...found.keys()].filter((key) => ![SIZE, REASONS, OUTCOMES].some((words) => words.has(key)));
  const row = (key) => {
    const [title, words] = SIZE.get(key) ?? [capital(plain(key)), meaning(key)];
    return h("tr", {}, h("th", { scope: "row" }, title), h("td", { class: "number" }, written(key, found.get(key))), h("td", { class: "muted" }, words));
  };
  const part = (title, keys) => keys.length > 0 && h("tbody", {}, title && h("tr", {}, h("th", { scope: "rowgroup", colspan: 3 }, title)), keys.map(row));
  return h("div", { class: "scroll" }, h("table", { class: "counts", "aria-label": "Counts" },
    tableHead([["Count"], ["Number", "number"], ["Meaning"]]),
    part(null, named(SIZE)), part("Candidates by reason", named(REASONS)), part("Candidates by outcome", named(OUTCOMES)), part("Other counts", others)));
}

const written = (key, number) => (key.endsWith("_permille") ? `${(number / 10).toFixed(1)} %` : count(number));
