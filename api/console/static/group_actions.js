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

/** Put one member out. */
export async function removeMember(groupId, memberId, again) {
  const done = await askReason({
    title: "Put this member out?",
    text: `${memberId} loses its partitions and the others take them over. If its process lives, it joins again by itself.`,
    verb: "Put it out", danger: true,
    act: ({ reason }) => change("DELETE", groupPath(groupId, "members", memberId), { query: { reason } }),
  });
  if (done) toast("The member is out.");
  again();
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
