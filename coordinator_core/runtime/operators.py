"""What operators may change, all in one place; each act is stored with its row of `changes` and can be repeated.

Groups are changed by the node that owns them; settings, the catalogue and runs by any. Whatever is asked may end in
NotCoordinator, CoordinatorLoadInProgress or CoordinatorNotAvailable, and nothing was changed then or nobody knows: ask
again, under the same change id.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.replies import OffsetsDeleted, OffsetsReset
from coordinator_core.protocol.setting_rules import SettingValue, check_settings
from coordinator_core.runtime import operations, resetting, undoing
from coordinator_core.runtime.act import Act, ChangeUnknown, KeyTaken
from coordinator_core.runtime.desk import Desk
from coordinator_core.runtime.resetting import Reset
from coordinator_core.runtime.surroundings import Surroundings
from coordinator_core.store.actions import Action
from coordinator_core.store.rows import ChangeFilter, ChangeRow, Json, RecordedChange, TopicRow
from coordinator_core.store.runs import RunRow


class Operators:
    """One node's answers to operators."""

    def __init__(
        self,
        desk: Desk,
        surroundings: Surroundings,
        refresh: Callable[[], Awaitable[None]],
        hurry: Callable[[], None],
    ) -> None:
        """Take up what operations work with.

        Args:
            desk: the store, and the shards.
            surroundings: settings and catalogue as this node knows them.
            refresh: reads settings and catalogue again.
            hurry: makes the node look for work at once.
        """
        self._desk = desk
        self._store = desk.store
        self._surroundings = surroundings
        self._refresh = refresh
        self._hurry = hurry

    # -- one group ------------------------------------------------------------------------------------------

    async def try_deletion(self, group_id: str, topic: str, partition: int | None) -> OffsetsDeleted:
        """Tell what a deletion of offsets would do.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members, and what they read is not known.
        """
        return await operations.try_deletion(self._desk, group_id, topic, partition)

    async def delete_offsets(self, group_id: str, topic: str, partition: int | None, act: Act) -> OffsetsDeleted:
        """Take a topic's offsets, or one of them, away; they go to the archive.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members, and what they read is not known.
            KeyTaken: the change id belongs to another act.
        """
        return await operations.delete_offsets(self._desk, group_id, topic, partition, act)

    async def delete_group(self, group_id: str, act: Act) -> None:
        """Take an Empty group away with its offsets, which go to the archive.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members; stop them first.
            KeyTaken: the change id belongs to another act.
        """
        await operations.delete_group(self._desk, group_id, act)

    async def force_rebalance(self, group_id: str, act: Act) -> None:
        """Start a rebalance because an operator wants one.

        Raises:
            GroupIdNotFound: there is no such group.
            InvalidRequest: it has no members.
            KeyTaken: the change id belongs to another act.
        """
        await operations.force_rebalance(self._desk, group_id, act)

    async def remove_member(self, group_id: str, member_id: str, act: Act) -> None:
        """Put a member out as if it had left.

        Raises:
            GroupIdNotFound: there is no such group.
            InvalidRequest: it has no such member.
            KeyTaken: the change id belongs to another act.
        """
        await operations.remove_member(self._desk, group_id, member_id, act)

    async def reload_group(self, group_id: str, act: Act) -> None:
        """Load a quarantined group again from its rows, which an operator has repaired or deleted.

        Raises:
            ReloadRefused: the group is not quarantined, or its rows still cannot be loaded.
            KeyTaken: the change id belongs to another act.
        """
        await operations.reload_group(self._desk, group_id, act)

    async def try_reset(self, group_id: str, reset: Reset) -> OffsetsReset:
        """Tell what a reset would do.

        Raises:
            NonEmptyGroup: the group has members; stop them first.
            GroupIdNotFound: there is no such group, and no topic is named.
            UnknownTopicOrPartition: nothing is known of what is named.
            InvalidRequest: a position is not known, or there are too many partitions.
        """
        return await resetting.try_reset(self._desk, group_id, reset)

    async def reset_offsets(self, group_id: str, reset: Reset, act: Act) -> OffsetsReset:
        """Put an Empty group to other positions; the old ones go to the archive.

        Raises:
            NonEmptyGroup: the group has members; stop them first.
            GroupIdNotFound: there is no such group, and no topic is named.
            UnknownTopicOrPartition: nothing is known of what is named.
            InvalidRequest: a position is not known, or there are too many partitions.
            KeyTaken: the change id belongs to another act.
        """
        return await resetting.reset_offsets(self._desk, group_id, reset, act)

    # -- changes --------------------------------------------------------------------------------------------

    async def changes(self, which: ChangeFilter) -> list[RecordedChange]:
        """Return a page of changes, the newest first."""
        return await self._desk.read(partial(self._store.changes, which))

    async def change(self, change_id: str) -> RecordedChange:
        """Return one change.

        Raises:
            ChangeUnknown: there is none.
        """
        found = await self._desk.read(partial(self._store.change, change_id))
        if found is None:
            raise ChangeUnknown(f"there is no change {change_id}")
        return found

    async def undo(self, change_id: str, act: Act) -> ChangeRow:
        """Take a change back as far as nothing newer stands there; return the undo, whose `after` tells how far.

        Raises:
            ChangeUnknown: there is no such change.
            CannotUndo: it cannot be taken back, or not any more.
            NonEmptyGroup: members read all that it would bring back; stop them first.
            InvalidRequest: a setting would be at odds with what others are now.
            KeyTaken: the change id belongs to another act.
        """
        undone = await undoing.find_undoable(self._desk, change_id, act)
        made = await self._desk.made(act, Action.UNDO, undone.group_id, {"undoes": undone.change_id})
        if made is not None:
            return made
        if undone.action in undoing.OF_ONE_GROUP:
            return await undoing.undo_in_group(self._desk, undone, act)
        if undone.action == Action.PUT_SETTINGS:
            await self._refresh()
            self._surroundings.check_change(undone.group_id, undone.before)
        noted = await undoing.undo_in_store(self._desk, undone, act)
        await self._refresh()
        self._hurry()
        return noted

    # -- settings and catalogue -------------------------------------------------------------------------------

    async def put_settings(self, group_id: str | None, values: Mapping[str, SettingValue], act: Act) -> None:
        """Change settings of a group or the cluster; in force here at once, elsewhere within one renewal.

        Raises:
            InvalidRequest: a key or value that will not do, by itself or beside the others.
            KeyTaken: the change id belongs to another act.
        """
        check_settings(values, is_cluster=group_id is None)
        texts = {key: None if value is None else str(value) for key, value in values.items()}
        await self._refresh()  # another node may have put what a repeat is shown, or what this is put beside
        made = await self._desk.made(act, Action.PUT_SETTINGS, group_id)
        if made is not None:
            if made.after != texts:
                raise KeyTaken
            return
        self._surroundings.check_change(group_id, texts)
        change = act.change(Action.PUT_SETTINGS, group_id, self._desk.wall_ms())
        await self._desk.read(partial(self._store.put_settings, group_id, texts, change))
        await self._refresh()

    async def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, act: Act) -> TopicRow:
        """Put a topic into the catalogue; a raised count rebalances every Stable group that reads it.

        Raises:
            ValueError: the count would fall.
            KeyTaken: the change id belongs to another act.
        """
        what: dict[str, Json] = {"topic": topic, "partitions": partitions}
        if log_start_offset is not None:
            what["log_start_offset"] = log_start_offset
        made = await self._desk.made(act, Action.PUT_TOPIC, None, what)
        if made is not None:
            return TopicRow(**made.after, version=0)
        change = act.change(Action.PUT_TOPIC, None, self._desk.wall_ms())
        row = await self._desk.read(partial(self._store.put_topic, topic, partitions, log_start_offset, change))
        await self._refresh()
        return row

    async def delete_topic(self, topic: str, act: Act) -> Json | None:
        """Take a topic out of the catalogue; a run archives the offsets that all groups have in it.

        Groups that read it rebalance. What is committed from now on stays: the topic is unknown then.

        Returns:
            What the change keeps: the run and its number of candidates; None if the catalogue has no such topic.

        Raises:
            KeyTaken: the change id belongs to another act.
        """
        made = await self._desk.made(act, Action.DELETE_TOPIC, None, {"topic": topic})
        if made is not None:
            return made.after
        change = act.change(Action.DELETE_TOPIC, None, self._desk.wall_ms())
        noted = await self._desk.read(partial(self._store.delete_topic, topic, change))
        await self._refresh()
        self._hurry()
        return None if noted is None else noted.after

    async def log_ends(self, topic: str, partition: int | None) -> dict[int, LogEnd]:
        """Return the known ends of a topic's logs, or of one of them, by partition."""
        found = await self._desk.read(partial(self._store.log_ends, [topic]))
        return {number: end for (_, number), end in sorted(found.items()) if partition in {None, number}}

    async def delete_log_ends(self, topic: str, partition: int | None, act: Act) -> ChangeRow:
        """Delete the known ends of a topic's logs, or of one of them; the next report of each begins anew.

        Reports that nodes have gathered and not stored yet are discarded, those of other topics too.

        Returns:
            The change as it was recorded, its `before` listing the deleted ends.

        Raises:
            KeyTaken: the change id belongs to another act.
        """
        made = await self._desk.made(act, Action.DELETE_LOG_ENDS, None, {"topic": topic, "partition": partition})
        if made is not None:
            return made
        change = act.change(Action.DELETE_LOG_ENDS, None, self._desk.wall_ms())
        recorded = await self._desk.read(partial(self._store.delete_log_ends, topic, partition, change))
        await self._refresh()
        return recorded

    # -- maintenance ----------------------------------------------------------------------------------------

    async def apply_run(self, run_id: str, act: Act, candidates: int | None = None) -> RunRow:
        """Mark a run as applying; the owners of its shards work it off. Repeating is harmless.

        Args:
            run_id: which.
            act: who wants it, and why.
            candidates: as many as they have seen; None: however many there are.

        Returns:
            The run; one that was decided already is as it was, rejected ones included, and so is a proposal that names
            other candidates than were seen.

        Raises:
            RunNotFound: there is no such run.
            KeyTaken: the change id belongs to another act.
        """
        await self._desk.made(act, Action.APPLY_RUN, None, {"run_id": run_id})
        change = act.change(Action.APPLY_RUN, None, self._desk.wall_ms())
        run = await self._desk.read(partial(self._store.begin_apply, run_id, change, candidates))
        self._hurry()
        return run

    async def reject_run(self, run_id: str, act: Act) -> RunRow:
        """Mark a proposed run as rejected: nothing of it is applied.

        Returns:
            The run; one that is applying or applied is as it was.

        Raises:
            RunNotFound: there is no such run.
            KeyTaken: the change id belongs to another act.
        """
        await self._desk.made(act, Action.REJECT_RUN, None, {"run_id": run_id})
        change = act.change(Action.REJECT_RUN, None, self._desk.wall_ms())
        return await self._desk.read(partial(self._store.reject, run_id, change))
