// What can be done to a group by hand; each act says what it will do, and wants a reason.

import { change, groupPath } from "./api.js";
import { askReason } from "./identity.js";
import { plural } from "./format.js";
import { toast } from "./toast.js";

/** Have all members join again. */
export async function forceRebalance(group, again) {
  const done = await askReason({
    title: "Force a rebalance?",
    text: `All of ${plural(group.members.length, "member")} stop, join again and are assigned anew.`,
    verb: "Force a rebalance", danger: true,
    act: ({ reason }) => change("POST", groupPath(group.group_id, "rebalance"), { body: { reason } }),
  });
  if (done) toast("The group rebalances.");
  again();
}

/** Remove one member. */
export async function removeMember(group, member, again) {
  const done = await askReason({
    title: "Remove this member?",
    text: `${member.member_id}: ${handedOver(group, member)} If its process lives, it joins again by itself.`,
    verb: "Remove it", danger: true,
    act: ({ reason }) => change("DELETE", groupPath(group.group_id, "members", member.member_id), { query: { reason } }),
  });
  if (done) toast("The member is removed.");
  again();
}

/** Say how many partitions a member owns, which, and where they go. */
function handedOver(group, { owned_partitions: owned }) {
  if (owned === null) return "its partitions are not known, as its assignment cannot be read.";
  const number = owned.reduce((sum, each) => sum + each.partitions.length, 0);
  if (!number) return "it owns no partition.";
  const named = owned.map((each) => `${each.topic}:${each.partitions.join(",")}`).join(" ");
  return `its ${plural(number, "partition")} (${named}) ${group.members.length === 1 ? "have no owner until another member joins." : "go to the other members."}`;
}

/** Delete a group that has no members. */
export async function deleteGroup(group, again) {
  const done = await askReason({
    title: "Delete this group?",
    text: "It has no members. Its offsets go to the archive, and undoing the change brings them back.",
    verb: "Delete", danger: true,
    act: ({ reason }) => change("DELETE", groupPath(group.group_id), { query: { reason } }),
  });
  if (done) toast("The group is deleted.");
  again();
}
