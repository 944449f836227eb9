// Changes as a table: who changed what, from what to what, why, and a button that takes it back.

import { change } from "./api.js";
import { h } from "./dom.js";
import { clock, setting } from "./format.js";
import { askReason } from "./identity.js";
import { toast } from "./toast.js";
import { action } from "./words.js";

const UNDOABLE = new Set(["put_settings", "reset_offsets", "delete_offsets", "delete_group", "apply_run", "delete_topic"]);
const SHOWN_MAX = 4;

/** Return the table; `again` is called once something was undone. */
export function changesTable(changes, again, { withGroup = false } = {}) {
  if (!changes.length) return h("p", { class: "blank" }, "Nothing was changed by hand.");
  const titles = ["When", "Who", "What", ...(withGroup ? ["Group"] : []), "From → to", "Why", ""];
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Changes" },
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title || h("span", { class: "sr" }, "Undo"))))),
    h("tbody", {}, changes.map((each) => row(each, again, withGroup)))));
}

function row(each, again, withGroup) {
  return h("tr", { class: each.undone_at ? "undone" : "" },
    h("td", { title: each.at }, clock(each.at)),
    h("td", { class: "id narrow", title: each.actor }, each.actor),
    h("td", { class: "act" }, action(each.action)),
    withGroup && h("td", { class: "id" }, each.group_id === null ? h("span", { class: "faint" }, "all") : h("a", { href: `#/groups/${encodeURIComponent(each.group_id)}`, title: each.group_id }, each.group_id)),
    h("td", { class: "wide" }, difference(each)),
    h("td", { class: "wide" }, each.reason),
    h("td", {}, each.undone_at ? h("span", { class: "tag", title: `by ${each.undone_by}` }, `undone ${clock(each.undone_at)}`)
      : isUndoable(each) && h("button", { type: "button", "data-key": `undo-${each.change_id}`, "aria-label": `Undo: ${action(each.action)}, ${clock(each.at)}`, onclick: () => undo(each, again) }, "Undo…")));
}

async function undo(each, again) {
  const done = await askReason({
    title: "Take this change back?",
    text: [`${each.actor}, ${clock(each.at)}: ${action(each.action)}. What newer stands there is kept.`, difference(each)],
    verb: "Undo",
    act: ({ reason }) => change("POST", `/v1/changes/${each.change_id}/undo`, { body: { reason } }),
  });
  if (done) toast("The change is taken back; the undo stands among the changes.");
  again();
}

/** Tell whether there is anything to take back: a deletion that found no offsets took none. */
function isUndoable({ action: what, before }) {
  return UNDOABLE.has(what) && !(what === "delete_offsets" && before?.offset_count === 0);
}

/** Say what was and what is, as far as it differs. */
function difference({ action: what, before, after }) {
  if (what === "put_settings") return settings(before ?? {}, after ?? {});
  if (what === "delete_offsets") return deleted(before, after);
  if (what === "undo") return settings_(after?.settings) ?? `took back: ${action(after?.action ?? "")}${after?.offset_count ? `, ${after.offset_count} offsets` : ""}`;
  const parts = Object.entries(after ?? before ?? {}).filter(([, value]) => value === null || typeof value !== "object");
  const lists = Object.entries(after ?? before ?? {}).filter(([, value]) => Array.isArray(value)).map(([key, value]) => [key, value.length]);
  return [...parts, ...lists].slice(0, SHOWN_MAX).map(([key, value], index) =>
    [index > 0 && h("br"), h("span", { class: "key" }, key), ` ${before && key in before && before[key] !== value && !Array.isArray(before[key]) ? `${text(before[key])} → ` : ""}${text(value)}`]);
}

/** Count what went, and not what was asked for. */
function deleted(before, after) {
  const where = after.partition === null ? after.topic : `${after.topic} ${after.partition}`;
  return [h("span", { class: "key" }, where), ` ${before.offset_count} ${before.offset_count === 1 ? "offset" : "offsets"}`];
}

function settings(before, after) {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.map((key, index) => [index > 0 && h("br"), h("span", { class: "key" }, key), " ", said(key, before[key]), " → ", h("strong", {}, said(key, after[key]))]);
}

const said = (key, value) => (value === null || value === undefined ? "as wider" : setting(key, /^-?\d+$/.test(value) ? Number(value) : value));

function settings_(list) {
  if (!list?.length) return null;
  return list.map((each, index) => [index > 0 && h("br"), h("span", { class: "key" }, each.key), ` ${each.outcome.replaceAll("_", " ")}: `, h("strong", {}, said(each.key, each.value))]);
}

const text = (value) => (value === null ? "nothing" : typeof value === "object" ? JSON.stringify(value) : String(value));
