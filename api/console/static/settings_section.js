// Effective settings of a group or the cluster, their source, and the dialogue that changes one.

import { change, groupPath, read, readPages } from "./api.js";
import { undoOf } from "./changes_list.js";
import { h } from "./dom.js";
import { setting } from "./format.js";
import { askReason } from "./identity.js";
import { toast } from "./toast.js";
import { SIMULATED, simulate } from "./what_if.js";

const DESCRIPTIONS = {
  session_timeout_ms: "time without a heartbeat after which a member is evicted",
  heartbeat_interval_ms: "heartbeat interval that clients use",
  rebalance_timeout_ms: "how long a rebalance waits for members to rejoin",
  group_min_session_timeout_ms: "the shortest session timeout that a client may request",
  group_max_session_timeout_ms: "the longest session timeout that a client may request",
  group_initial_rebalance_delay_ms: "initial rebalance delay of an empty group",
  group_max_size: "maximum number of members",
  group_max_pending_members: "maximum number of pending member ids",
  group_max_offsets: "maximum number of committed offsets",
  group_metadata_max_bytes: "maximum size of all members’ metadata",
  member_metadata_max_bytes: "maximum size of one member’s metadata",
  member_assignment_max_bytes: "maximum size of one member’s assignment",
  group_new_member_join_timeout_ms: "how long a new member waits for its first join response before it is evicted",
  group_sync_timeout_scope: "which members the sync timeout evicts: all, or only dynamic ones",
  offsets_retention_minutes: "how long the offsets of an Empty group are kept; -1: no expiry",
  offset_metadata_max_bytes: "maximum length of an offset’s metadata",
  log_end_max_age_ms: "age after which a reported log end offset is stale and the lag becomes a lower bound; cluster-wide",
};
const UNITS = { ms: "milliseconds", minutes: "minutes", bytes: "bytes" };
const SOURCES = { group: "set for this group", cluster: "set for the cluster", environment: "from the node’s environment", default: "the default" };
const UNSET = { session_timeout_ms: "requested by each client", heartbeat_interval_ms: "a third of the session timeout, at most 3 s", rebalance_timeout_ms: "the longest that any client requests" };

/** Return the table of a group's settings, or of the cluster's if `groupId` is null. */
export function settingsTable(groupId, values, again) {
  return h("div", { class: "scroll" }, h("table", { class: "list", "aria-label": "Settings" },
    h("thead", {}, h("tr", {}, ["Setting", "Effective value", "Source", "Description", ""].map((title) => h("th", { scope: "col" }, title || h("span", { class: "visually-hidden" }, "Change"))))),
    h("tbody", {}, Object.entries(values).map(([key, found]) => row(groupId, key, found, again)))));
}

function row(groupId, key, { value, source }, again) {
  const level = groupId === null ? "cluster" : "group";
  return h("tr", { class: source === level ? "own" : "" },
    h("td", { class: "key" }, key), h("td", {}, value === null ? UNSET[key] : h("strong", {}, setting(key, value))),
    h("td", {}, source === level ? h("span", { class: "tag accent" }, groupId === null ? "◆ the cluster" : "◆ this group") : source),
    h("td", { class: "muted wide" }, DESCRIPTIONS[key] ?? ""),
    h("td", {}, h("button", { type: "button", "data-key": `set-${key}`, "aria-label": `Change ${key}`, onclick: () => changeSetting(groupId, key, again) }, "Change…")));
}

/**
 * Ask for a new value and set it; a `suggested` one is filled in, and `reason` in the reason field.
 * `source` says where the suggested one comes from, `note` what a new value does now; all of them may still have to be loaded.
 * The form does not name the group: it opens on the page on which it was asked for, or not at all.
 */
export async function changeSetting(groupId, key, again, given = {}) {
  const page = location.hash;
  const { suggested = null, source = null, note = "", reason = "" } = await given;
  const path = groupId === null ? "/v1/config" : groupPath(groupId, "config");
  const effective = await read(path).then(({ values }) => values[key], (refusal) => toast(refusal.message));
  if (!effective) return;
  const requested = effective.value === null && groupId !== null ? await requestedBy(groupId, key) : "";
  if (location.hash !== page) return;
  const isScope = key === "group_sync_timeout_scope";
  const effect = "Effective within one heartbeat, without a rebalance.";
  const field = isScope
    ? { options: ["all", "dynamic", ["", "reset to default"]], value: effective.value, hint: effect }
    : { value: suggested ?? effective.value ?? "", inputmode: "numeric", hint: `${unit(key)}Leave empty to reset to default. ${effect}` };
  const done = await askReason({
    title: `Change ${key}`, text: [explanation(key, effective, suggested, requested, source), note && ` ${note}`], verb: "Set", reason,
    fields: [{ name: "value", label: "New value", ...field }],
    extra: groupId !== null && SIMULATED.has(key) ? (values) => simulate(groupId, key, values) : undefined,
    act: ({ value: given, reason: why }, id) => change("PUT", path, { body: { values: { [key]: parse(given) }, reason: why }, key: id }),
  });
  if (done) toast(`${key} updated.`, undoOf(done, again));
  again();
}

/** Return what a group's clients request for a timeout that is not set: the shortest and the longest, or the one that counts. */
async function requestedBy(groupId, key) {
  const { members } = await readPages(groupPath(groupId), "members").catch(() => ({ members: [] }));
  const values = members.map((each) => each[key]).filter(Number.isInteger).sort((one, other) => one - other);
  const shown = key === "rebalance_timeout_ms" ? values.slice(-1) : new Set([values.at(0), values.at(-1)]);
  return values.length ? [...shown].map((value) => setting(key, value)).join(" to ") : "";
}

/** Return what the setting means, its effective value with the source, and the suggested value with its own. */
function explanation(key, { value, source }, suggested, requested, suggestedBy) {
  const description = DESCRIPTIONS[key] ? `${DESCRIPTIONS[key][0].toUpperCase()}${DESCRIPTIONS[key].slice(1)}. ` : "";
  return [description, "Effective now: ", h("strong", {}, value === null ? [UNSET[key], requested && `, ${requested}`] : setting(key, value)), ` (${SOURCES[source] ?? source})`,
    suggested !== null && [", suggested: ", h("strong", {}, setting(key, suggested)), suggestedBy && ` (${suggestedBy})`], "."];
}

/** Return the sentence about the unit that a setting's name ends with, if it does. */
function unit(key) {
  const name = UNITS[key.split("_").at(-1)];
  return name ? `In ${name}. ` : "";
}

function parse(given) {
  const text = given.trim();
  if (text === "") return null;
  return /^-?\d+$/.test(text) ? Number(text) : text;
}
