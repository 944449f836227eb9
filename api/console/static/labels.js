// Labels of states, rebalance triggers, end reasons, changes and members.

import { h } from "./dom.js";

export const STATES = {
  PreparingRebalance: { sign: "◐", name: "Preparing", tone: "warn", hint: "waiting for members to rejoin" },
  CompletingRebalance: { sign: "◑", name: "Completing", tone: "warn", hint: "waiting for members to sync" },
  Stable: { sign: "●", name: "Stable", tone: "good", hint: "all members have their assignment" },
  Empty: { sign: "○", name: "Empty", tone: "idle", hint: "no members" },
  Flapping: { sign: "▲", name: "Stable, flapping", tone: "warn", hint: "rebalanced at least ten times within the last hour" },
  Dead: { sign: "✕", name: "Dead", tone: "idle", hint: "deleted" },
};

/** So many rebalances within an hour make a Stable group a flapping one. */
export const FLAPPING_REBALANCES = 10;

const TRIGGERS = {
  member_joined: "a member joined",
  member_left: "a member left",
  session_expired: "a member sent no heartbeat within its session timeout",
  member_left_or_expired: "a member left or its session expired",
  rebalance_timeout: "a member did not rejoin within the rebalance timeout",
  sync_timeout: "a member did not sync in time",
  subscription_changed: "a member changed its subscription",
  leader_rejoined: "the leader rejoined to compute a new assignment",
  static_member_replaced: "a static member was replaced with another subscription",
  partitions_changed: "the partition count of a topic changed",
  over_capacity: "the group exceeded its maximum size",
  unknown: "not known yet",
  database_restored: "the database was restored or failed over",
  admin: "requested by an operator",
};

const SHORT_TRIGGERS = {
  session_expired: "session expired",
  member_left_or_expired: "left or expired",
  rebalance_timeout: "rebalance timeout",
  sync_timeout: "sync timeout",
  subscription_changed: "a subscription changed",
  leader_rejoined: "the leader rejoined",
  static_member_replaced: "a static member changed",
  partitions_changed: "partitions changed",
  over_capacity: "too many members",
  database_restored: "database restored",
};

const ENDS = {
  left: "left", session_expired: "session expired", left_or_expired: "left or expired", new_member_timeout: "new member timeout", rebalance_timeout: "rebalance timeout", sync_timeout: "sync timeout",
  admin: "removed by an operator", replaced: "replaced by a new process", hour: "ongoing",
};

const ACTION_NAMES = {
  put_settings: "settings changed", reset_offsets: "offsets reset", delete_offsets: "offsets deleted", delete_group: "group deleted",
  remove_member: "member removed", force_rebalance: "rebalance forced", reload_group: "group reloaded", put_topic: "topic set",
  delete_topic: "topic deleted", delete_log_ends: "log ends deleted", apply_run: "run applied", reject_run: "run rejected",
  expire_run: "run expired", drop_history_partition: "history archived", restore_history_partition: "history restored",
  start_incarnation: "database restored", undo: "undo",
  issue_token: "token issued", expire_token: "token's expiry set", revoke_token: "token revoked",
};
/** The actions of changes. */
export const ACTIONS = Object.keys(ACTION_NAMES);

/** Return the name in STATES of a group's state: one that is Stable for the moment only is flapping. */
export const stateNow = (state, rebalancesLastHour) => (state === "Stable" && rebalancesLastHour >= FLAPPING_REBALANCES ? "Flapping" : state);

/** Return a rebalance's trigger as a sentence. */
export const trigger = (name) => TRIGGERS[name] ?? name ?? "";

/** Return a rebalance's trigger in a few words. */
export const shortTrigger = (name) => SHORT_TRIGGERS[name] ?? trigger(name);

/** Return the label of a change's action. */
export const action = (name) => ACTION_NAMES[name] ?? name.replaceAll("_", " ");

/** Return a state as a sign, a name and a colour. */
export function badge(state) {
  const { sign, name, tone, hint } = STATES[state] ?? { sign: "?", name: state, tone: "idle", hint: "" };
  return h("span", { class: `badge ${tone}`, title: `${state}: ${hint}` }, h("span", { "aria-hidden": "true" }, sign), ` ${name}`);
}

/** Return the address of a group's page. */
export const groupAddress = (groupId) => `#/groups/${encodeURIComponent(groupId)}`;

/** Return a group's name; the id of a group may be empty. */
export const groupName = (groupId) => (groupId === "" ? "(empty group id)" : groupId);

/** Return a link to a group's page. */
export const groupLink = (groupId) => h("a", { href: groupAddress(groupId), title: groupId }, groupName(groupId));

/** Return the address of a topic's page. */
export const topicAddress = (topic) => `#/topics/${encodeURIComponent(topic)}`;

/** Return a link to a topic's page. */
export const topicLink = (topic) => h("a", { href: topicAddress(topic), title: topic }, topic);

const MEMBER = /^(.*?)-([0-9a-f]{4})[0-9a-f]{4}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/s;

/** Return a member's label: its client id, and the first digits of the random part of its member id. */
export function member(memberId) {
  if (!memberId) return "";
  const parts = MEMBER.exec(memberId);
  return h("span", { class: "member", title: memberId }, parts ? [parts[1], h("i", {}, ` ${parts[2]}…`)] : memberId);
}

/** Return the client id within a member id. */
export const clientOf = (memberId) => MEMBER.exec(memberId ?? "")?.[1] ?? memberId ?? "";

const CAUSES = { silent: "no heartbeats", late_join: "alive", late_sync: "alive" };

/** Return how a member session ended; for a member that missed a rebalance, also whether it was alive. */
export const end = (reason, cause) => (ENDS[reason] ?? plain(reason)) + (cause && reason !== "session_expired" ? `, ${CAUSES[cause]}` : "");

/** Return an API identifier as words. */
export const plain = (word) => word.replaceAll("_", " ");
