// Settings in force and where each comes from; changing one takes a value, a reason and a name.

import { change, groupPath } from "./api.js";
import { h } from "./dom.js";
import { setting } from "./format.js";
import { askReason } from "./identity.js";
import { toast } from "./toast.js";
import { TRIED, tryOut } from "./what_if.js";

const MEANINGS = {
  session_timeout_ms: "how long a member may be silent before it is put out",
  heartbeat_interval_ms: "how often members are told to show that they live",
  rebalance_timeout_ms: "how long a rebalance waits for members to join again",
  group_min_session_timeout_ms: "the shortest session a member may ask for",
  group_max_session_timeout_ms: "the longest session a member may ask for",
  group_initial_rebalance_delay_ms: "how long an empty group waits for more members at first",
  group_max_size: "how many members it may have",
  group_max_pending_members: "how many member ids may wait for their first join",
  group_metadata_max_bytes: "how large the metadata of all its members may be",
  member_metadata_max_bytes: "how large the metadata of one member may be",
  member_assignment_max_bytes: "how large the assignment of one member may be",
  group_new_member_join_timeout_ms: "how long a newcomer may wait for its first answer",
  group_sync_timeout_scope: "whom the sync limit puts out",
  offsets_retention_minutes: "how long offsets of an empty group are kept; -1: for ever",
  offset_metadata_max_bytes: "how long the note at an offset may be",
  log_end_max_age_ms: "for how long a reported log end counts, before lag from it is a lower bound; of the whole cluster",
};
const UNSET = { session_timeout_ms: "what each member asks for", heartbeat_interval_ms: "a third of the session, at most 3 s", rebalance_timeout_ms: "the longest any member asks for" };

/** Return the table of a group's settings, or, with null for the group, of the cluster's. */
export function settingsTable(groupId, values, again) {
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Settings" },
    h("thead", {}, h("tr", {}, ["Setting", "In force", "From", "What it is", ""].map((title) => h("th", { scope: "col" }, title || h("span", { class: "sr" }, "Change"))))),
    h("tbody", {}, Object.entries(values).map(([key, found]) => row(groupId, key, found, again)))));
}

function row(groupId, key, { value, source }, again) {
  const level = groupId === null ? "cluster" : "group";
  return h("tr", { class: source === level ? "own" : "" },
    h("td", { class: "key" }, key), h("td", {}, value === null ? UNSET[key] : h("strong", {}, setting(key, value))),
    h("td", {}, source === level ? h("span", { class: "tag accent" }, groupId === null ? "◆ the cluster" : "◆ this group") : source),
    h("td", { class: "faint wide" }, MEANINGS[key] ?? ""),
    h("td", {}, h("button", { type: "button", "data-key": `set-${key}`, "aria-label": `Change ${key}`, onclick: () => changeSetting(groupId, key, value, again) }, "Change…")));
}

/** Ask for a new value and set it; `reason` may be one to begin with. */
export async function changeSetting(groupId, key, value, again, reason = "") {
  const isScope = key === "group_sync_timeout_scope";
  const field = isScope
    ? { options: ["all", "dynamic"] }
    : { value: value ?? "", inputmode: "numeric", hint: "empty: back to the wider level; in force within a heartbeat, without a rebalance" };
  const done = await askReason({
    title: `Change ${key}`, text: MEANINGS[key] && `${MEANINGS[key][0].toUpperCase()}${MEANINGS[key].slice(1)}.`, verb: "Set", reason,
    fields: [{ name: "value", label: "New value", ...field }],
    extra: groupId !== null && TRIED.has(key) ? (values) => tryOut(groupId, key, values) : undefined,
    act: ({ value: given, reason: why }) => change("PUT", groupId === null ? "/v1/config" : groupPath(groupId, "config"), { body: { values: { [key]: read(given) }, reason: why } }),
  });
  if (done) toast(`${key} is set. It can be undone among the changes.`);
  again();
}

function read(given) {
  const text = given.trim();
  if (text === "") return null;
  return /^-?\d+$/.test(text) ? Number(text) : text;
}
