// Changes as a table: actor, values before and after, reason, and a button that undoes the change.

import { change, read } from "./api.js";
import { h } from "./dom.js";
import { clock, count, plural, setting } from "./format.js";
import { askReason } from "./identity.js";
import { toast } from "./toast.js";
import { action, groupLink, plain, topicLink } from "./labels.js";

const UNDOABLE = new Set(["put_settings", "reset_offsets", "delete_group", "delete_topic"]);
const DONE = new Set(["restored", "removed"]);
const FINAL_RUNS = new Set(["group_cleanup", "history_archive"]);
const SHOWN_MAX = 4;

/** Return the table; `again` is called after a change is undone. */
export function changesTable(changes, again, { withGroup = false } = {}) {
  if (!changes.length) return h("p", { class: "empty-state" }, "No changes recorded.");
  const titles = ["Time", "Actor", "Change", ...(withGroup ? ["Group"] : []), "Before → after", "Reason", ""];
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Changes" },
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title || h("span", { class: "visually-hidden" }, "Undo"))))),
    h("tbody", {}, changes.map((each) => row(each, again, withGroup)))));
}

function row(each, again, withGroup) {
  return h("tr", { class: each.undone_at ? "undone" : "" },
    h("td", { title: each.at }, clock(each.at)),
    h("td", { class: "id narrow", title: each.actor }, each.actor),
    h("td", { class: "action" }, action(each.action)),
    withGroup && h("td", { class: "id" }, each.group_id === null ? h("span", { class: "muted" }, "all") : groupLink(each.group_id)),
    h("td", { class: "wide" }, difference(each)),
    h("td", { class: "wide" }, each.reason),
    h("td", {}, each.undone_at ? h("span", { class: "tag", title: `by ${each.undone_by_change_id}` }, `undone ${clock(each.undone_at)}`)
      : isUndoable(each) && h("button", { type: "button", "data-key": `undo-${each.change_id}`, "aria-label": `Undo: ${action(each.action)}, ${clock(each.at)}`, onclick: () => undo(each, again) }, "Undo…")));
}

/** Return the function that undoes a change just made, for its toast. */
export const undoOf = ({ result }, again) => () => read(`/v1/changes/${result.changeId}`).then((each) => undo(each, again), (refusal) => toast(refusal.message));

async function undo(each, again) {
  const done = await askReason({
    title: "Undo this change?",
    text: [`${each.actor}, ${clock(each.at)}: ${action(each.action)}. Values that have changed since are kept.`, difference(each)],
    verb: "Undo",
    act: ({ reason }, key) => change("POST", `/v1/changes/${each.change_id}/undo`, { body: { reason }, key }),
  });
  if (done) toast(restored(done.result.answer));
  again();
}

/** Return what an undo has restored, in a sentence. */
function restored({ offsets, settings, topic, run_id: run, candidates }) {
  const parts = [...offsets, ...settings, topic].filter(Boolean);
  const why = kept(parts);
  if (run) return `A maintenance run restores ${plural(candidates, "offset")}${why}.`;
  if (!parts.length) return "The change removed nothing, so there is nothing to restore.";
  if (!parts.some(({ outcome }) => DONE.has(outcome))) return `Nothing was restored${why}.`;
  return `${why ? `Undone in part${why}` : "Change undone"}. The undo is recorded in the audit log.`;
}

/** Return why parts of a change were not undone, with the number of each outcome, in brackets; "" if all were. */
function kept(parts = []) {
  const outcomes = [...Map.groupBy(parts.filter(({ outcome }) => !DONE.has(outcome)), ({ outcome }) => outcome)];
  return outcomes.length ? ` (${outcomes.map(([outcome, all]) => `${plain(outcome)}: ${count(all.length)}`).join(", ")})` : "";
}

/** Return whether the change can be undone: a deletion that found no offsets cannot, nor a run that another change applied, or that removed groups or history. */
function isUndoable({ action: name, before, after }) {
  if (name === "delete_offsets") return before?.offset_count !== 0;
  if (name === "apply_run") return (before?.status ?? "proposed") === "proposed" && !FINAL_RUNS.has(after?.kind);
  return UNDOABLE.has(name);
}

/** Return the values before and after, as far as they differ. */
function difference({ action: name, before, after }) {
  if (name === "put_settings") return settings(before ?? {}, after ?? {});
  if (name === "delete_offsets") return deleted(before, after);
  if (name === "undo") return settings_(after?.settings) ?? `undone: ${action(after?.action ?? "")}${after?.offset_count ? `, ${plural(after.offset_count, "offset")}` : ""}${kept(after?.offsets)}`;
  const parts = Object.entries(after ?? before ?? {}).filter(([, value]) => value === null || typeof value !== "object");
  const lists = Object.entries(after ?? before ?? {}).filter(([, value]) => Array.isArray(value)).map(([key, value]) => [key, value.length]);
  return [...parts, ...lists].slice(0, SHOWN_MAX).map(([key, value], index) =>
    [index > 0 && h("br"), h("span", { class: "key" }, key), ` ${before && key in before && before[key] !== value && !Array.isArray(before[key]) ? `${text(before[key])} → ` : ""}`, key === "topic" ? topicLink(value) : h("bdi", {}, text(value))]);
}

/** Return the number of deleted offsets, with the topic or partition. */
function deleted(before, after) {
  const where = after.partition === null ? after.topic ?? "several topics" : `${after.topic} ${after.partition}`;
  return [h("bdi", { class: "key" }, where), ` ${before.offset_count} ${before.offset_count === 1 ? "offset" : "offsets"}`];
}

function settings(before, after) {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.map((key, index) => [index > 0 && h("br"), h("span", { class: "key" }, key), " ", shown(key, before[key]), " → ", h("strong", {}, shown(key, after[key]))]);
}

const shown = (key, value) => (value === null || value === undefined ? "inherited" : setting(key, /^-?\d+$/.test(value) ? Number(value) : value));

function settings_(list) {
  if (!list?.length) return null;
  return list.map((each, index) => [index > 0 && h("br"), h("span", { class: "key" }, each.key), ` ${each.outcome.replaceAll("_", " ")}: `, h("strong", {}, shown(each.key, each.value))]);
}

const text = (value) => (value === null ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value));
