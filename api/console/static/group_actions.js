// Operations on a group: each dialogue shows the effect and asks for a reason.

import { change, groupPath } from "./api.js";
import { undoOf } from "./changes_list.js";
import { h } from "./dom.js";
import { askReason } from "./identity.js";
import { plural } from "./format.js";
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
