// Kafka's words in ours: every state has a sign and a name beside its colour, and every trigger a sentence.

import { h } from "./dom.js";

export const STATES = {
  PreparingRebalance: { sign: "◐", name: "Preparing", tone: "warn", hint: "waits for its members to join again" },
  CompletingRebalance: { sign: "◑", name: "Completing", tone: "warn", hint: "waits for its members to fetch their part" },
  Stable: { sign: "●", name: "Stable", tone: "good", hint: "everybody knows what is theirs" },
  Empty: { sign: "○", name: "Empty", tone: "idle", hint: "has no members" },
  Dead: { sign: "✕", name: "Dead", tone: "idle", hint: "is gone" },
};

const TRIGGERS = {
  member_joined: "a member joined",
  member_left: "a member left",
  session_expired: "a member fell silent for longer than its session timeout",
  rebalance_timeout: "a member did not join again in time",
  sync_timeout: "a member did not fetch its assignment in time",
  subscription_changed: "a member changed what it subscribes to",
  leader_rejoined: "the leader asked for a new assignment",
  static_member_replaced: "a static member came back changed",
  partitions_changed: "a topic has other partitions",
  over_capacity: "there were more members than allowed",
  store_failed: "the assignment could not be stored",
  database_restored: "the database was restored or failed over",
  admin: "an operator asked for it",
};

const SHORT_TRIGGERS = {
  session_expired: "a member fell silent",
  rebalance_timeout: "a member joined too late",
  sync_timeout: "a member synced too late",
  subscription_changed: "a subscription changed",
  leader_rejoined: "the leader rejoined",
  static_member_replaced: "a static member changed",
  partitions_changed: "partitions changed",
  over_capacity: "too many members",
  database_restored: "database restored",
};

const ENDS = {
  left: "left", session_expired: "fell silent", rebalance_timeout: "joined too late", sync_timeout: "synced too late",
  admin: "removed by an operator", replaced: "replaced by a new process", hour: "goes on",
};

const ACTIONS = {
  put_group_config: "set", put_settings: "set", reset_offsets: "offsets reset", delete_group: "group deleted",
  delete_offsets: "offsets deleted", delete_topic: "topic deleted", delete_log_ends: "log ends deleted", put_topic: "topic set", undo: "undo",
  force_rebalance: "rebalance forced", reload_group: "group reloaded", remove_member: "member removed", apply_run: "run applied", reject_run: "run rejected",
  start_incarnation: "database restored",
};

/** Say why a rebalance began. */
export const trigger = (name) => TRIGGERS[name] ?? name ?? "";

/** Say so in a few words. */
export const shortTrigger = (name) => SHORT_TRIGGERS[name] ?? trigger(name);

/** Name what a change did. */
export const action = (name) => ACTIONS[name] ?? name.replaceAll("_", " ");

/** Show a state by sign, name and colour. */
export function badge(state) {
  const { sign, name, tone, hint } = STATES[state] ?? { sign: "?", name: state, tone: "idle", hint: "" };
  return h("span", { class: `badge ${tone}`, title: `${state}: ${hint}` }, h("span", { "aria-hidden": "true" }, sign), ` ${name}`);
}

const MEMBER = /^(.*?)-([0-9a-f]{4})[0-9a-f]{4}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** Name a member by what its client calls itself, and as much of its id as tells it apart. */
export function member(memberId) {
  if (!memberId) return "";
  const parts = MEMBER.exec(memberId);
  return h("span", { class: "member", title: memberId }, parts ? [parts[1], h("i", {}, ` ${parts[2]}…`)] : memberId);
}

/** Name a member by what its client calls itself alone. */
export const clientOf = (memberId) => MEMBER.exec(memberId ?? "")?.[1] ?? memberId ?? "";

const CAUSES = { silent: "silent", late_join: "alive", late_sync: "alive" };

/** Say how a stay ended; of a member that missed a rebalance, whether it was alive. */
export const end = (reason, cause) => (ENDS[reason] ?? plain(reason)) + (cause && reason !== "session_expired" ? `, ${CAUSES[cause]}` : "");

/** Say a word of the API as people write it. */
export const plain = (word) => word.replaceAll("_", " ");
