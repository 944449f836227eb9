"""The operations of operators. Each one stores its row of `changes` in its own transaction, and may be repeated.

The node that owns a group changes it and its settings; any node changes the cluster's settings, topic metadata and
runs. Every operation may raise NotCoordinator, CoordinatorLoadInProgress or CoordinatorNotAvailable. Then nothing was
changed, or the outcome is unknown: repeat the operation with the same change id.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from coordinator_core.protocol.errors import CoordinatorError, CoordinatorNotAvailable
from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.responses import DeleteOffsetsResponse, ResetOffsetsResponse
from coordinator_core.protocol.setting_rules import SettingValue, check_settings
from coordinator_core.runtime import group_operations, offset_reset, undo
from coordinator_core.runtime.admin_context import AdminContext
from coordinator_core.runtime.changes import Change, ChangeNotFound, IdempotencyKeyConflict
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.runtime.offset_reset import Reset
from coordinator_core.store.change_actions import ChangeAction
from coordinator_core.store.rows import ChangeFilter, ChangeRow, Json, RecordedChange, TopicRow
from coordinator_core.store.runs import RunRow


class Admin:
    """The operations of operators on one node."""

    def __init__(
        self,
        admin_context: AdminContext,
        metadata_cache: MetadataCache,
        refresh: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        """Keep the dependencies of the operations.

        Args:
            admin_context: the store and the shards.
            metadata_cache: settings and topic metadata as this node knows them.
            refresh: reads settings and topic metadata again.
            wake: starts the next renewal, and so maintenance, at once.
        """
        self._admin_context = admin_context
        self._store = admin_context.store
        self._metadata_cache = metadata_cache
        self._refresh = refresh
        self._wake = wake

    # -- one group ------------------------------------------------------------------------------------------

    async def dry_run_delete_offsets(self, group_id: str, topic: str, partition: int | None) -> DeleteOffsetsResponse:
        """Return what a deletion of offsets would do.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members, and their subscriptions are not known.
        """
        return await group_operations.dry_run_delete_offsets(self._admin_context, group_id, topic, partition)

    async def delete_offsets(
        self, group_id: str, topic: str, partition: int | None, change: Change
    ) -> DeleteOffsetsResponse:
        """Delete a topic's offsets, or that of one partition; they go to the archive.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members, and their subscriptions are not known.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        return await group_operations.delete_offsets(self._admin_context, group_id, topic, partition, change)

    async def delete_group(self, group_id: str, change: Change) -> None:
        """Delete an Empty group and its offsets, which go to the archive.

        Raises:
            GroupIdNotFound: there is no such group.
            NonEmptyGroup: it has members; stop them first.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        await group_operations.delete_group(self._admin_context, group_id, change)

    async def force_rebalance(self, group_id: str, change: Change) -> None:
        """Start a rebalance of a group.

        Raises:
            GroupIdNotFound: there is no such group.
            InvalidRequest: it has no members.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        await group_operations.force_rebalance(self._admin_context, group_id, change)

    async def remove_member(self, group_id: str, member_id: str, change: Change) -> None:
        """Remove a member as if it had left.

        Raises:
            GroupIdNotFound: there is no such group.
            InvalidRequest: it has no such member.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        await group_operations.remove_member(self._admin_context, group_id, member_id, change)

    async def reload_group(self, group_id: str, change: Change) -> None:
        """Reload a quarantined group from its rows, after an operator has repaired or deleted them.

        Raises:
            ReloadRefused: the group is not quarantined, or its rows still cannot be loaded.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        await group_operations.reload_group(self._admin_context, group_id, change)

    async def dry_run_reset_offsets(self, group_id: str, reset: Reset) -> ResetOffsetsResponse:
        """Return what a reset would do.

        Raises:
            NonEmptyGroup: the group has members; stop them first.
            GroupIdNotFound: there is no such group, and no topic is named.
            UnknownTopicOrPartition: no partition of a named topic is known.
            InvalidRequest: a target offset is not known, or there are too many partitions.
        """
        return await offset_reset.dry_run_reset_offsets(self._admin_context, group_id, reset)

    async def reset_offsets(self, group_id: str, reset: Reset, change: Change) -> ResetOffsetsResponse:
        """Commit other offsets for an Empty group; the old ones go to the archive.

        Raises:
            NonEmptyGroup: the group has members; stop them first.
            GroupIdNotFound: there is no such group, and no topic is named.
            UnknownTopicOrPartition: no partition of a named topic is known.
            InvalidRequest: a target offset is not known, or there are too many partitions.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        return await offset_reset.reset_offsets(self._admin_context, group_id, reset, change)

    # -- changes --------------------------------------------------------------------------------------------

    async def changes(self, selected: ChangeFilter) -> list[RecordedChange]:
        """Return a page of changes, newest first."""
        return await self._admin_context.read(partial(self._store.changes, selected))

    async def change(self, change_id: str) -> RecordedChange:
        """Return one change.

        Raises:
            ChangeNotFound: there is none.
        """
        found = await self._admin_context.read(partial(self._store.change, change_id))
        if found is None:
            raise ChangeNotFound(f"there is no change {change_id}")
        return found

    async def undo(self, change_id: str, change: Change) -> ChangeRow:
        """Undo a change, except where something newer was stored since.

        Returns:
            The undo as it was recorded; its `after` lists what was restored.

        Raises:
            ChangeNotFound: there is no such change.
            CannotUndo: it cannot be undone, or not any more.
            NonEmptyGroup: members read every topic that it would restore; stop them first.
            InvalidRequest: a restored setting would conflict with the other settings.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        undone = await undo.find_undoable(self._admin_context, change_id, change)
        if undone.action == ChangeAction.PUT_SETTINGS:
            with self._owned(undone.group_id):
                return await self._undo_settings(undone, change)
        earlier = await self._recorded_undo(undone, change)
        if earlier is not None:
            return earlier
        if undone.action in undo.OF_ONE_GROUP:
            return await undo.undo_in_group(self._admin_context, undone, change)
        recorded = await undo.undo_in_store(self._admin_context, undone, change)
        await self._refresh()
        self._wake()
        return recorded

    async def _undo_settings(self, undone: ChangeRow, change: Change) -> ChangeRow:
        await self._refresh()
        earlier = await self._recorded_undo(undone, change)
        if earlier is not None:
            return earlier
        self._metadata_cache.check_change(undone.group_id, undone.before)
        recorded = await undo.undo_in_store(self._admin_context, undone, change)
        await self._refresh()
        return recorded

    async def _recorded_undo(self, undone: ChangeRow, change: Change) -> ChangeRow | None:
        arguments = {"undoes": undone.change_id}
        return await self._admin_context.recorded_change(change, ChangeAction.UNDO, undone.group_id, arguments)

    # -- settings and topic metadata -------------------------------------------------------------------------------

    async def put_settings(self, group_id: str | None, values: Mapping[str, SettingValue], change: Change) -> None:
        """Change settings of a group or the cluster; effective on this node when it returns.

        The other nodes apply settings of the cluster at their next renewal; `Confirmations` lists those that have not.

        Raises:
            NotCoordinator: another node owns the group; nothing was changed.
            InvalidRequest: a key or value is invalid, or conflicts with the other settings.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        check_settings(values, is_cluster=group_id is None)
        texts = {key: None if value is None else str(value) for key, value in values.items()}
        with self._owned(group_id):
            await self._put_settings(group_id, texts, change)

    async def _put_settings(self, group_id: str | None, texts: Mapping[str, str | None], change: Change) -> None:
        await self._refresh()  # another node may have changed settings that this change is checked against
        earlier = await self._admin_context.recorded_change(change, ChangeAction.PUT_SETTINGS, group_id)
        if earlier is not None:
            if earlier.after != texts:
                raise IdempotencyKeyConflict
            return
        self._metadata_cache.check_change(group_id, texts)
        change_row = change.row(ChangeAction.PUT_SETTINGS, group_id, self._admin_context.wall_ms())
        await self._admin_context.read(partial(self._store.put_settings, group_id, texts, change_row))
        await self._refresh()

    @contextmanager
    def _owned(self, group_id: str | None) -> Iterator[None]:
        """Check before and after a change of settings that this node owns the group, if there is one.

        A node applies the newest settings after it has acquired a shard and before it serves it. So if the group moves
        after the second check, the change is effective at its new owner.

        Raises:
            CoordinatorError: this node does not own the group, and nothing was changed.
            CoordinatorNotAvailable: this node lost the group during the change, which may be stored.
        """
        if group_id is None:
            yield
            return
        self._admin_context.loaded_shard(group_id)
        yield
        try:
            self._admin_context.loaded_shard(group_id)
        except CoordinatorError as error:
            raise CoordinatorNotAvailable("this node lost the group during the change; repeat it") from error

    async def put_topic(self, topic: str, partitions: int, log_start_offset: int | None, change: Change) -> TopicRow:
        """Create or change a topic's metadata; a higher partition count rebalances every Stable group that reads it.

        Raises:
            ValueError: the count would decrease.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        arguments: dict[str, Json] = {"topic": topic, "partitions": partitions}
        if log_start_offset is not None:
            arguments["log_start_offset"] = log_start_offset
        earlier = await self._admin_context.recorded_change(change, ChangeAction.PUT_TOPIC, None, arguments)
        if earlier is not None:
            return TopicRow(**earlier.after, version=0)
        change_row = change.row(ChangeAction.PUT_TOPIC, None, self._admin_context.wall_ms())
        row = await self._admin_context.read(
            partial(self._store.put_topic, topic, partitions, log_start_offset, change_row)
        )
        await self._refresh()
        return row

    async def delete_topic(self, topic: str, change: Change) -> Json | None:
        """Delete a topic's metadata; a run archives the offsets that all groups have in it.

        Groups that read it rebalance. The run does not archive offsets that are committed later.

        Returns:
            The `after` of the change: the run and its number of candidates; None if there is no such topic.

        Raises:
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        earlier = await self._admin_context.recorded_change(change, ChangeAction.DELETE_TOPIC, None, {"topic": topic})
        if earlier is not None:
            return earlier.after
        change_row = change.row(ChangeAction.DELETE_TOPIC, None, self._admin_context.wall_ms())
        recorded = await self._admin_context.read(partial(self._store.delete_topic, topic, change_row))
        await self._refresh()
        self._wake()
        return None if recorded is None else recorded.after

    async def log_ends(self, topic: str, partition: int | None) -> dict[int, LogEnd]:
        """Return the known log end offsets of a topic, or of one partition, by partition."""
        found = await self._admin_context.read(partial(self._store.log_ends, [topic]))
        return {number: end for (_, number), end in sorted(found.items()) if partition in {None, number}}

    async def delete_log_ends(self, topic: str, partition: int | None, change: Change) -> ChangeRow:
        """Delete the known log end offsets of a topic, or of one partition, until they are reported again.

        Every node discards all reports, of other topics too, that it has not stored yet.

        Returns:
            The change as it was recorded; its `before` lists the deleted log end offsets.

        Raises:
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        earlier = await self._admin_context.recorded_change(
            change, ChangeAction.DELETE_LOG_ENDS, None, {"topic": topic, "partition": partition}
        )
        if earlier is not None:
            return earlier
        change_row = change.row(ChangeAction.DELETE_LOG_ENDS, None, self._admin_context.wall_ms())
        recorded = await self._admin_context.read(partial(self._store.delete_log_ends, topic, partition, change_row))
        await self._refresh()
        return recorded

    # -- maintenance ----------------------------------------------------------------------------------------

    async def apply_run(self, run_id: str, change: Change, candidates: int | None = None) -> RunRow:
        """Mark a run as applying; the owners of its shards decide its candidates. May be repeated.

        Args:
            run_id: the run.
            change: the operator's change.
            candidates: how many candidates the operator has seen; None: any number.

        Returns:
            The run. It is unchanged if it was applied or rejected before, or has another number of candidates.

        Raises:
            RunNotFound: there is no such run.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        await self._admin_context.recorded_change(change, ChangeAction.APPLY_RUN, None, {"run_id": run_id})
        change_row = change.row(ChangeAction.APPLY_RUN, None, self._admin_context.wall_ms())
        run = await self._admin_context.read(partial(self._store.begin_apply, run_id, change_row, candidates))
        self._wake()
        return run

    async def reject_run(self, run_id: str, change: Change) -> RunRow:
        """Mark a proposed run as rejected, so that it is never applied.

        Returns:
            The run; unchanged if it is applying or applied.

        Raises:
            RunNotFound: there is no such run.
            IdempotencyKeyConflict: the change id belongs to another change.
        """
        await self._admin_context.recorded_change(change, ChangeAction.REJECT_RUN, None, {"run_id": run_id})
        change_row = change.row(ChangeAction.REJECT_RUN, None, self._admin_context.wall_ms())
        return await self._admin_context.read(partial(self._store.reject, run_id, change_row))
