// Operations on a group: each dialogue shows the effect and asks for a reason.

import { adviceSource } from "./advice_section.js";
import { change, groupPath, read } from "./api.js";
import { undoOf } from "./changes_list.js";
import { h } from "./dom.js";
import { askReason } from "./identity.js";
import { elapsed, plural, span } from "./format.js";
import { changeSetting } from "./settings_section.js";
import { toast } from "./toast.js";

/** Force a rebalance: all members rejoin. */
export async function forceRebalance(group, again) {
  const done = await askReason({
    title: "Force a rebalance?",
    text: `${group.members.length === 1 ? "The member stops consuming, rejoins and receives" : `All ${plural(group.members.length, "member")} stop consuming, rejoin and receive`} a new assignment. This cannot be undone.`,
    verb: "Force a rebalance", danger: true,
    act: ({ reason }, key) => change("POST", groupPath(group.group_id, "rebalance"), { body: { reason }, key }),
  });
  if (done) toast("Rebalance started.");
  again();
}

/** Remove one member. */
export async function removeMember(group, member, again) {
  const done = await askReason({
    title: "Remove member?",
    text: [h("bdi", {}, member.member_id), ": ", ownedPartitions(group, member), " If its process is still running, it rejoins. This cannot be undone."],
    verb: "Remove member", danger: true,
    act: ({ reason }, key) => change("DELETE", groupPath(group.group_id, "members", member.member_id), { query: { reason }, key }),
  });
  if (done) toast("Member removed.");
  again();
}

/** Return which partitions a member owns, and which members receive them. */
function ownedPartitions(group, { owned_partitions: owned }) {
  if (owned === null) return "its assignment cannot be decoded, so its partitions are unknown.";
  const number = owned.reduce((sum, each) => sum + each.partitions.length, 0);
  if (!number) return "it owns no partitions.";
  const named = owned.map((each, index) => [index > 0 && " ", h("bdi", {}, `${each.topic}:${each.partitions.join(",")}`)]);
  const [have, go] = number === 1 ? ["has", "goes"] : ["have", "go"];
  return [`its ${plural(number, "partition")} (`, named, `) ${group.members.length === 1 ? `${have} no owner until another member joins.` : `${go} to the other members.`}`];
}

/** Delete a group that has no members. */
export async function deleteGroup(group, again) {
  const done = await askReason({
    title: "Delete this group?",
    text: "It has no members. Its offsets are archived; undo restores them.",
    verb: "Delete", danger: true,
    act: ({ reason }, key) => change("DELETE", groupPath(group.group_id), { query: { reason }, key }),
  });
  if (done) toast("Group deleted. Its offsets are archived.", undoOf(done, again));
  again();
}

/** What a rebalance timeout that is already over does in each phase. */
const SHORTENED = {
  PreparingRebalance: "the group continues at once, without those that it waits for",
  CompletingRebalance: "those that have not synced are evicted at once, except static members while group_sync_timeout_scope is dynamic, and the others rebalance again",
};

/** Set another rebalance timeout for a group that is stuck in a rebalance. */
export const shortenTimeout = (group, again) => changeSetting(group.group_id, "rebalance_timeout_ms", again, shorterTimeout(group));

/** Return what the form of the timeout says, and the advised one if it is shorter. */
async function shorterTimeout(group) {
  const requested = Math.max(...group.members.map((each) => each.rebalance_timeout_ms));
  const advice = await read(groupPath(group.group_id, "tuning")).then((found) => found.advice.rebalance_timeout_ms, () => null);
  const isShorter = advice?.verdict === "change" && advice.value < (advice.present ?? requested);
  const waited = span(elapsed(group.state_since));
  return {
    reason: "the group is stuck in a rebalance",
    note: group.state in SHORTENED ? `The members have waited for ${waited}; with a value below that, ${SHORTENED[group.state]}.` : "",
    ...(isShorter && { suggested: advice.value, source: adviceSource(advice) }),
  };
}
