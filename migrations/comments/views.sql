-- The description of every view and its columns, as tables.sql has those of tables.

COMMENT ON VIEW dashboards.group_overview IS 'What is the state of each group, how far does it lag, and when and why did it last rebalance? Commits show up with the next checkpoint (`MUSTER_OFFSETS_CHECKPOINT_INTERVAL_MS`).';
COMMENT ON COLUMN dashboards.group_overview.partitions_committed IS 'partitions with a committed offset; null: none';
COMMENT ON COLUMN dashboards.group_overview.lag_records IS 'sum of log end offset minus committed offset, where the log end is known, at most 2^63-1; null: no log end is known, or all that is known is that it is at least 0';
COMMENT ON COLUMN dashboards.group_overview.last_committed_at IS 'when the group last committed';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_at IS 'when the rebalance in progress started, else the last one that ended';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_trigger IS 'what triggered it';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_trigger_member_id IS 'the member that triggered it; null: none, or it is in progress';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_client_reason IS 'the client''s reason; null: none, or it is in progress';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_outcome IS 'null: it is in progress, or there was none';
COMMENT ON COLUMN dashboards.group_overview.node_id IS 'the node that serves the group';
COMMENT ON COLUMN dashboards.group_overview.is_lag_lower_bound IS '`lag_records` is a lower bound, because a log end is stale, as in `partition_lag`';
COMMENT ON COLUMN dashboards.group_overview.log_end_at IS 'when the log ends of its partitions were last reported: the oldest of these times';

COMMENT ON VIEW dashboards.known_log_ends IS 'Where does the log of each committed partition end, as far as known, and when was that last reported? The higher of the log end in `log_end_offsets` and the group''s own in `offsets`; every lag that Muster shows is computed from it. Commits show up with the next checkpoint (`MUSTER_OFFSETS_CHECKPOINT_INTERVAL_MS`).';
COMMENT ON COLUMN dashboards.known_log_ends.member_id IS 'the member that committed';
COMMENT ON COLUMN dashboards.known_log_ends.log_end_offset IS 'null: not known';
COMMENT ON COLUMN dashboards.known_log_ends.log_end_at IS 'when that log end was last reported';

COMMENT ON VIEW dashboards.ownership IS 'Which member owns, or owned, which partitions of a group, from when to when?';
COMMENT ON COLUMN dashboards.ownership.group_created_at IS 'the group''s `created_at`, which distinguishes groups of one name';
COMMENT ON COLUMN dashboards.ownership.rebalance_id IS 'the rebalance that assigned the partitions to the member';
COMMENT ON COLUMN dashboards.ownership.generation IS 'the generation in which they were assigned';
COMMENT ON COLUMN dashboards.ownership.valid_to IS 'null: it still owns them';

COMMENT ON VIEW dashboards.slowest_members IS 'Which consumers did the last rebalances of each group wait for, and for how long? The last twenty rebalances of a group that exists, and of none before it of the same name, and for each of them the three consumers that it waited for longest. A consumer is an instance id, or else a client id and a host; its member ids are added up.';
COMMENT ON COLUMN dashboards.slowest_members.started_at IS 'when the rebalance started';
COMMENT ON COLUMN dashboards.slowest_members.completed_at IS 'when it ended';
COMMENT ON COLUMN dashboards.slowest_members.trigger IS 'what triggered it';
COMMENT ON COLUMN dashboards.slowest_members.took_ms IS 'its duration';
COMMENT ON COLUMN dashboards.slowest_members.member_id IS 'the member id of the consumer that was waited for longest';
COMMENT ON COLUMN dashboards.slowest_members.waited_for_ms IS 'how long, over all member ids of the consumer';
COMMENT ON COLUMN dashboards.slowest_members.joined_after_ms IS 'this column and the next ones are as in `rebalance_members`';
COMMENT ON COLUMN dashboards.slowest_members.client_host IS 'the host that its last join came from';
COMMENT ON COLUMN dashboards.slowest_members.member_count IS 'number of member ids under which the consumer was waited for';

COMMENT ON VIEW dashboards.spurious_evictions IS 'Which members were evicted although they were alive: which reconnected within a minute? The same consumer is the same instance id; for members without one, the same client id from the same host. A member whose successor joined between its last heartbeat and its eviction was dead and is not listed. Name a range of `evicted_at` where history is long.';
COMMENT ON COLUMN dashboards.spurious_evictions.member_id IS 'the evicted member';
COMMENT ON COLUMN dashboards.spurious_evictions.end_reason IS '`session_expired`, `rebalance_timeout` or `sync_timeout`';
COMMENT ON COLUMN dashboards.spurious_evictions.session_timeout_ms IS 'the effective session timeout';
COMMENT ON COLUMN dashboards.spurious_evictions.heartbeat_gap_ms_max IS 'its longest heartbeat gap before';
COMMENT ON COLUMN dashboards.spurious_evictions.last_heartbeat_at IS 'its last activity; null: none, as in `member_sessions`';
COMMENT ON COLUMN dashboards.spurious_evictions.reconnected_at IS 'when it joined again; it was silent from `last_heartbeat_at` until then';
COMMENT ON COLUMN dashboards.spurious_evictions.reconnected_as IS 'its new member id';

COMMENT ON VIEW dashboards.rebalances_per_hour IS 'How often did each group rebalance in each hour of the last seven days, and why? A rebalance counts in the hour (UTC) in which it ended. Older ones are in `rebalances`.';
COMMENT ON COLUMN dashboards.rebalances_per_hour.hour IS 'start of the hour';
COMMENT ON COLUMN dashboards.rebalances_per_hour.trigger IS 'what triggered them';
COMMENT ON COLUMN dashboards.rebalances_per_hour.rebalances IS 'rebalances that ended in that hour';
COMMENT ON COLUMN dashboards.rebalances_per_hour.completed IS 'those that ended with the group Stable';
COMMENT ON COLUMN dashboards.rebalances_per_hour.emptied IS 'those that ended without members';
COMMENT ON COLUMN dashboards.rebalances_per_hour.abandoned IS 'those whose node was lost';
COMMENT ON COLUMN dashboards.rebalances_per_hour.restarts IS 'how often they returned to the join phase';
COMMENT ON COLUMN dashboards.rebalances_per_hour.partitions_moved IS 'partitions that moved to another member';
COMMENT ON COLUMN dashboards.rebalances_per_hour.took_total_ms IS 'sum of their durations';
COMMENT ON COLUMN dashboards.rebalances_per_hour.took_max_ms IS 'the longest duration';

COMMENT ON VIEW dashboards.rebalancing_groups IS 'Which groups are rebalancing, since when, why, until when at the latest, and which members have not joined or not synced? The `awaited_` columns show what the node last stored (`groups.awaited_members`): they are null for the first five seconds of a rebalance (`MUSTER_AWAITED_MEMBERS_AFTER_MS`) and are at most a second old. For the current state query `node_url`: `waiting_for` of `GET /v1/groups/{group_id}`. The `last_waited_for_` columns are about the previous rebalance, whose slowest member need not be the one that is awaited now.';
COMMENT ON COLUMN dashboards.rebalancing_groups.state IS '`PreparingRebalance` or `CompletingRebalance`';
COMMENT ON COLUMN dashboards.rebalancing_groups.state_since IS 'when this phase started';
COMMENT ON COLUMN dashboards.rebalancing_groups.rebalance_started_at IS 'when the rebalance started, including earlier join phases';
COMMENT ON COLUMN dashboards.rebalancing_groups.rebalance_trigger IS 'what triggered it';
COMMENT ON COLUMN dashboards.rebalancing_groups.trigger_member_id IS 'the member that triggered it; null: none';
COMMENT ON COLUMN dashboards.rebalancing_groups.client_reason IS 'the reason that its client sent';
COMMENT ON COLUMN dashboards.rebalancing_groups.restarts IS 'how often it returned to the join phase';
COMMENT ON COLUMN dashboards.rebalancing_groups.rebalance_timeout_ms IS 'the group''s or the cluster''s setting, else the longest that a member of the stored generation requests; a member that joins in this phase may request longer. Null: neither is known';
COMMENT ON COLUMN dashboards.rebalancing_groups.phase_deadline_at IS 'when the phase ends by that timeout; later if a member that joined in it requests longer, or if it was extended for static members; null: not known';
COMMENT ON COLUMN dashboards.rebalancing_groups.last_waited_for_client_id IS 'the member that the previous rebalance waited for longest; null: it waited for none';
COMMENT ON COLUMN dashboards.rebalancing_groups.last_waited_for_instance_id IS 'its instance id, if it is a static member';
COMMENT ON COLUMN dashboards.rebalancing_groups.last_waited_for_ms IS 'how long it waited';
COMMENT ON COLUMN dashboards.rebalancing_groups.node_id IS 'the node that serves the group; null: none';
COMMENT ON COLUMN dashboards.rebalancing_groups.node_url IS 'the URL of its API';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_phase IS '`join`: the awaited members have not joined; `sync`: they have not synced; null: none are stored';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_since IS 'since when they are awaited: the start of the phase';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_count IS 'number of awaited members';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_member_ids IS 'their member ids, at most 100; in a sync phase the leader comes first';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_instance_ids IS 'their instance ids, in the same order; null for a dynamic member';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_client_ids IS 'their client ids; null for a pending member, which has an id and has not joined yet';
COMMENT ON COLUMN dashboards.rebalancing_groups.awaited_client_hosts IS 'their hosts; null as above';

COMMENT ON VIEW dashboards.offsets_expiring IS 'Which groups lose offsets within a week unless they commit or change their state, how many, and when first? The result of the newest run of `offset_retention` whose `as_of` has passed.';
COMMENT ON COLUMN dashboards.offsets_expiring.state IS 'the current state; null: the group is deleted, or only has offsets';
COMMENT ON COLUMN dashboards.offsets_expiring.within_a_day IS 'offsets that expire within a day of `as_of`';
COMMENT ON COLUMN dashboards.offsets_expiring.within_a_week IS 'within seven days, including those of the first day';
COMMENT ON COLUMN dashboards.offsets_expiring.next_expiry_at IS 'when the first of them expires';
COMMENT ON COLUMN dashboards.offsets_expiring.as_of IS 'the time for which the run evaluated its rules';
COMMENT ON COLUMN dashboards.offsets_expiring.has_changed IS 'the group has changed its state since then, or is deleted; of offsets without a group: none is left';

COMMENT ON VIEW dashboards.idle_members IS 'Which members own no partition while others of their group do, and since when? Stable groups only. A group with more members than partitions always has some.';
COMMENT ON COLUMN dashboards.idle_members.assigned_since IS 'when its current assignment was accepted';
COMMENT ON COLUMN dashboards.idle_members.members_with_partitions IS 'members of the group that own partitions';
COMMENT ON COLUMN dashboards.idle_members.partitions IS 'partitions that they own';

COMMENT ON VIEW dashboards.recent_changes IS 'Who changed what in the last seven days, from what to what, why, and who undid it?';
COMMENT ON COLUMN dashboards.recent_changes.action IS 'as in `changes`';
COMMENT ON COLUMN dashboards.recent_changes.group_id IS 'null: a change of the cluster';
COMMENT ON COLUMN dashboards.recent_changes.undone_at IS 'null: it was not undone';
COMMENT ON COLUMN dashboards.recent_changes.change_id IS 'the id, with which an operator can undo it';
COMMENT ON COLUMN dashboards.recent_changes.undone_by_actor IS 'the actor who undid it';
COMMENT ON COLUMN dashboards.recent_changes.undone_reason IS 'the reason for undoing it';

COMMENT ON VIEW dashboards.partition_lag IS 'How far does each partition of a group lag, in records and in seconds, and which member owns it? Seconds are counted from when the log passed the committed offset; between two reports of its end it is assumed to grow evenly, as in `coordinator_core.protocol.log_ends`. A log end that was not reported for `dashboards.log_end_max_age()` is stale: records and seconds are then lower bounds, and null where the bound is 0. That function returns the cluster''s setting `log_end_max_age_ms` ([settings.md](settings.md#of-the-cluster)). Name a group: for all groups at once this reads a lot of history. Commits show up with the next checkpoint (`MUSTER_OFFSETS_CHECKPOINT_INTERVAL_MS`).';
COMMENT ON COLUMN dashboards.partition_lag.member_id IS 'the current owner; null: none';
COMMENT ON COLUMN dashboards.partition_lag.log_end_offset IS 'as in `known_log_ends`';
COMMENT ON COLUMN dashboards.partition_lag.lag_records IS 'null: no log end is known, or all that is known is that it is at least 0';
COMMENT ON COLUMN dashboards.partition_lag.lag_seconds IS 'how long ago the log passed the committed offset; 0: it has not; null: as for `lag_records`';
COMMENT ON COLUMN dashboards.partition_lag.is_lag_lower_bound IS 'the lag may be longer: the log end is stale, or every log end known from the last day is beyond the committed offset';
COMMENT ON COLUMN dashboards.partition_lag.log_end_at IS 'when that log end was last reported';
COMMENT ON COLUMN dashboards.partition_lag.is_log_end_stale IS 'the log end was last reported longer ago than `dashboards.log_end_max_age()`';

COMMENT ON VIEW dashboards.lag_history IS 'How far did each partition of a group lag, minute by minute? One row for each minute with a commit of the partition, its current committed offset, and one for each minute in which a trusted reporter reported its log end: a group that commits nothing has rows too. Of what has been replaced since, a row counts commits and log ends of the day before it only: when a group commits again after more than a day, the reports from the second day on have no rows any more. Deleted log ends are left out. An offset that was reset or deleted counts until then. Name a range of `at`. Commits show up with the next checkpoint (`MUSTER_OFFSETS_CHECKPOINT_INTERVAL_MS`).';
COMMENT ON COLUMN dashboards.lag_history.at IS 'when the offset was committed, or the log end reported';
COMMENT ON COLUMN dashboards.lag_history.log_end_offset IS 'as known at that time';
COMMENT ON COLUMN dashboards.lag_history.lag_records IS 'null: no log end was known, or all that is known is that it is at least 0';
COMMENT ON COLUMN dashboards.lag_history.member_id IS 'the member that committed; null: the offset was reset or deleted since, and it is not known';
COMMENT ON COLUMN dashboards.lag_history.log_end_at IS 'when that log end had last been reported';
COMMENT ON COLUMN dashboards.lag_history.is_lag_lower_bound IS 'it had been reported more than `dashboards.log_end_max_age()` before, so the lag is a lower bound';

COMMENT ON VIEW dashboards.newest_runs IS 'When did each job last run, and as of when? The newest proposal of a job that proposes; the newest report on any group of a job that reports, so a job without anything to report is missing. Runs whose `as_of` is in the future are left out.';
COMMENT ON COLUMN dashboards.newest_runs.kind IS 'the job, which is also the id of its DAG';
COMMENT ON COLUMN dashboards.newest_runs.as_of IS 'the time for which it evaluated its rules';
COMMENT ON COLUMN dashboards.newest_runs.status IS 'as in `maintenance_runs`; null: a report has no status';
