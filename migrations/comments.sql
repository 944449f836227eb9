-- The description of every table, view and column. `muster migrate` applies this file after the migrations;
-- docs/tables.md is generated from it (`make docs`).

COMMENT ON TABLE groups IS 'A group, from its first join or commit until it is deleted or retired.';
COMMENT ON COLUMN groups.group_id IS 'the key';
COMMENT ON COLUMN groups.shard_id IS 'the shard it belongs to';
COMMENT ON COLUMN groups.state IS '`Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`; a group that is `Dead` has no row';
COMMENT ON COLUMN groups.state_since IS 'since when; for an Empty group, what retention is counted from';
COMMENT ON COLUMN groups.settled_state IS 'the state that the group falls back to when its node is lost during a join phase';
COMMENT ON COLUMN groups.generation IS 'raised by one with every completed join phase, and by 10,000 or more with every new incarnation of the database; 0 before the first';
COMMENT ON COLUMN groups.protocol_type IS '`consumer`, or whatever the members say; null: nobody ever joined, offsets are committed only';
COMMENT ON COLUMN groups.protocol_name IS 'the assignor chosen for this generation';
COMMENT ON COLUMN groups.leader_id IS 'the member that assigns';
COMMENT ON COLUMN groups.member_count IS 'members of this generation';
COMMENT ON COLUMN groups.subscribed_topics IS 'topics that some member subscribes to; null: unknown';
COMMENT ON COLUMN groups.topics_version IS 'version of the catalogue when the last join phase ended';
COMMENT ON COLUMN groups.must_rebalance IS 'the stored assignment no longer fits, so whoever loads the group rebalances it';
COMMENT ON COLUMN groups.rebalance_started_at IS 'when the rebalance under way began; null: none is';
COMMENT ON COLUMN groups.rebalance_trigger IS 'why it began';
COMMENT ON COLUMN groups.rebalance IS 'what else is known of it, until it becomes a row of `rebalances`';
COMMENT ON COLUMN groups.created_at IS 'when this life of the group began';
COMMENT ON COLUMN groups.awaited_members IS 'the members that the phase under way waits for, once the rebalance has lasted for `MUSTER_AWAITED_MEMBERS_AFTER_MS` (5 seconds): `{"phase", "since_ms", "count", "members": [{"member_id", "group_instance_id", "client_id", "client_host"}]}`, a hundred members at most and `count` of them all. `phase` is `join` (they have not joined) or `sync` (they have not synced; the leader comes first). Written again within a second when they change, null as soon as the phase ends';

COMMENT ON TABLE members IS 'A member of a group''s current generation. Heartbeats are not stored: whoever has a row is a member.';
COMMENT ON COLUMN members.group_id IS 'the key, with `member_id`';
COMMENT ON COLUMN members.shard_id IS 'the group''s shard';
COMMENT ON COLUMN members.member_id IS 'handed out by the coordinator';
COMMENT ON COLUMN members.group_instance_id IS 'a static member''s own name; null: a dynamic member';
COMMENT ON COLUMN members.client_id IS 'as the client called itself';
COMMENT ON COLUMN members.client_host IS 'where its last join came from';
COMMENT ON COLUMN members.session_timeout_ms IS 'the session timeout that it asked for';
COMMENT ON COLUMN members.rebalance_timeout_ms IS 'the rebalance timeout that it asked for';
COMMENT ON COLUMN members.subscription IS '`{"topics": […]}`; null: its metadata cannot be read';
COMMENT ON COLUMN members.assignment IS '`[{"topic": …, "partitions": […]}]`; null: none, or it cannot be read';
COMMENT ON COLUMN members.assigned_since IS 'when this generation''s assignment was accepted';
COMMENT ON COLUMN members.held IS 'spans of ownership still open: `[{"topic", "partitions", "since_ms", "generation", "rebalance_id"}]`';
COMMENT ON COLUMN members.joined_at IS 'when it first joined';
COMMENT ON COLUMN members.protocol_names IS 'the assignors that it offers, by preference';
COMMENT ON COLUMN members.protocol_metadata IS 'the metadata of each, as it came';
COMMENT ON COLUMN members.assignment_bytes IS 'the assignment, as the leader sent it';
COMMENT ON COLUMN members.position IS 'order in which members were added';

COMMENT ON TABLE offsets IS 'A committed offset.';
COMMENT ON COLUMN offsets.group_id IS 'the key, with `topic` and `partition`';
COMMENT ON COLUMN offsets.shard_id IS 'the group''s shard';
COMMENT ON COLUMN offsets.committed_offset IS 'the next offset to be read';
COMMENT ON COLUMN offsets.leader_epoch IS 'as committed; -1: none';
COMMENT ON COLUMN offsets.metadata IS 'whatever the consumer noted';
COMMENT ON COLUMN offsets.log_end_offset IS 'the end of the partition as the consumer saw it; null: it did not say';
COMMENT ON COLUMN offsets.committed_at IS 'when it was committed';
COMMENT ON COLUMN offsets.expires_at IS 'an expiry of its own, which replaces retention; null: none';
COMMENT ON COLUMN offsets.member_id IS 'who committed; empty: a consumer in no group';
COMMENT ON COLUMN offsets.commit_version IS 'drawn at every write and never repeated: it names this very commit (its order means nothing)';
COMMENT ON COLUMN offsets.log_end_at IS 'when the consumer saw that end, of an offset that a reset or an undo put there; null: at `committed_at`';

COMMENT ON TABLE log_end_offsets IS 'Where a partition ends, for all groups: the furthest end that a trusted reporter of any group named ([security.md](security.md#who-may-report-ends-of-logs)). Nodes store what changed about once a second.';
COMMENT ON COLUMN log_end_offsets.topic IS 'the key, with `partition`';
COMMENT ON COLUMN log_end_offsets.log_end_offset IS 'it never falls, unless the topic or the end is deleted (`muster offsets delete-log-ends`)';
COMMENT ON COLUMN log_end_offsets.reported_at IS 'when a reporter named that end last';
COMMENT ON COLUMN log_end_offsets.first_reported_at IS 'when the partition''s first end was reported; rows of `log_end_history` from before were deleted';

COMMENT ON TABLE topics IS 'The catalogue: how many partitions a topic has. A topic that is not in it is unknown, not missing.';
COMMENT ON COLUMN topics.topic IS 'the key';
COMMENT ON COLUMN topics.partitions IS 'their number, which only grows';
COMMENT ON COLUMN topics.log_start_offset IS 'where `earliest` is';
COMMENT ON COLUMN topics.version IS 'version of the catalogue when the number last changed';

COMMENT ON TABLE group_configs IS 'A setting of one group, which is stronger than the cluster''s. The group need not exist.';
COMMENT ON COLUMN group_configs.group_id IS 'the key, with `key`';
COMMENT ON COLUMN group_configs.key IS 'the setting''s name';
COMMENT ON COLUMN group_configs.value IS 'its value, as text';
COMMENT ON COLUMN group_configs.set_by IS 'who set it';
COMMENT ON COLUMN group_configs.set_at IS 'when';

COMMENT ON TABLE cluster_config IS 'A setting of the whole cluster, which is stronger than a node''s environment.';
COMMENT ON COLUMN cluster_config.key IS 'the setting''s name';
COMMENT ON COLUMN cluster_config.value IS 'its value, as text';
COMMENT ON COLUMN cluster_config.set_by IS 'who set it';
COMMENT ON COLUMN cluster_config.set_at IS 'when';

COMMENT ON TABLE nodes IS 'A node that runs, or did a moment ago.';
COMMENT ON COLUMN nodes.node_id IS 'the key: its advertised address';
COMMENT ON COLUMN nodes.url IS 'where it is reached';
COMMENT ON COLUMN nodes.version IS 'of the program';
COMMENT ON COLUMN nodes.started_at IS 'since when it has been here';
COMMENT ON COLUMN nodes.expires_at IS 'until when it counts as live, unless it renews';
COMMENT ON COLUMN nodes.renewals IS 'how often it has renewed; a node that remembers more knows that the database was rolled back';

COMMENT ON TABLE shard_leases IS 'A shard, and the node that owns it.';
COMMENT ON COLUMN shard_leases.shard_id IS 'the key';
COMMENT ON COLUMN shard_leases.node_id IS 'the owner; null: nobody';
COMMENT ON COLUMN shard_leases.epoch IS 'raised at every change of owner; every write proves it';
COMMENT ON COLUMN shard_leases.expires_at IS 'until when the lease runs, unless it is renewed';

COMMENT ON TABLE incarnation IS 'One row: which life of the database this is, and the identity under which nodes serve it ([backup.md](backup.md)). Earlier ones are in `changes`, with the action `start_incarnation`.';
COMMENT ON COLUMN incarnation.only_row IS 'always true';
COMMENT ON COLUMN incarnation.number IS '1 for a new database; raised by a restore, a failover or a rollback';
COMMENT ON COLUMN incarnation.started_at IS 'when it started';
COMMENT ON COLUMN incarnation.system_identifier IS 'the cluster''s, as in `pg_control_system()`; null, as the rest: no node has served yet';
COMMENT ON COLUMN incarnation.timeline IS 'the cluster''s timeline';
COMMENT ON COLUMN incarnation.database_oid IS 'the object id of the database';
COMMENT ON COLUMN incarnation.table_oid IS 'the object id of this table';

COMMENT ON TABLE versions IS 'One row: how often each small table was changed, and more after a restore. Nodes that are behind read the table again.';
COMMENT ON COLUMN versions.only_row IS 'always true';
COMMENT ON COLUMN versions.cluster_config IS 'changes of `cluster_config`';
COMMENT ON COLUMN versions.group_configs IS 'changes of `group_configs`';
COMMENT ON COLUMN versions.topics IS 'changes of a partition count in `topics`';
COMMENT ON COLUMN versions.log_end_deletions IS 'deletions of rows of `log_end_offsets`; nodes discard the ends that they gathered before';
COMMENT ON COLUMN versions.shard_count IS 'how many shards this database was made for';

COMMENT ON TABLE group_transitions IS 'A change of a group''s state. Partitioned by `at`.';
COMMENT ON COLUMN group_transitions.shard_id IS 'the group''s shard';
COMMENT ON COLUMN group_transitions.group_created_at IS 'which life of the group';
COMMENT ON COLUMN group_transitions.at IS 'when';
COMMENT ON COLUMN group_transitions.generation IS 'the generation after the change';
COMMENT ON COLUMN group_transitions.from_state IS 'null: the group was created';
COMMENT ON COLUMN group_transitions.reason IS 'a trigger of a rebalance, or what else led to it';
COMMENT ON COLUMN group_transitions.member_id IS 'the member that caused it, if one did';

COMMENT ON TABLE rebalances IS 'A rebalance, from PreparingRebalance until the group was Stable or Empty or the attempt was given up. Falling back in between is counted, not told apart. Partitioned by `completed_at`.';
COMMENT ON COLUMN rebalances.rebalance_id IS 'the key, with `completed_at`';
COMMENT ON COLUMN rebalances.shard_id IS 'the group''s shard';
COMMENT ON COLUMN rebalances.group_created_at IS 'which life of the group';
COMMENT ON COLUMN rebalances.generation IS 'the generation it ended with';
COMMENT ON COLUMN rebalances.trigger IS '`member_joined`, `member_left`, `session_expired`, `rebalance_timeout`, `sync_timeout`, `subscription_changed`, `leader_rejoined`, `static_member_replaced`, `partitions_changed`, `over_capacity`, `store_failed`, `database_restored` or `admin`';
COMMENT ON COLUMN rebalances.trigger_member_id IS 'the member that triggered it, if one did';
COMMENT ON COLUMN rebalances.client_reason IS 'what that client gave as its reason';
COMMENT ON COLUMN rebalances.started_at IS 'when the join phase began';
COMMENT ON COLUMN rebalances.joined_at IS 'when everybody had joined; null: that never happened';
COMMENT ON COLUMN rebalances.completed_at IS 'when it was over';
COMMENT ON COLUMN rebalances.outcome IS '`completed`, `emptied` or `abandoned`';
COMMENT ON COLUMN rebalances.restarts IS 'how often it fell back to joining';
COMMENT ON COLUMN rebalances.member_count_before IS 'members of the generation before';
COMMENT ON COLUMN rebalances.member_count_after IS 'members of the new one';
COMMENT ON COLUMN rebalances.partitions_moved IS 'partitions that have another owner than before';

COMMENT ON TABLE rebalance_members IS 'One member''s part in one rebalance that is over: everybody who was in the group during it. Written with the rebalance''s own row. Partitioned by `completed_at`.';
COMMENT ON COLUMN rebalance_members.rebalance_id IS 'the rebalance; the key, with `completed_at` and `member_id`';
COMMENT ON COLUMN rebalance_members.shard_id IS 'the group''s shard';
COMMENT ON COLUMN rebalance_members.group_created_at IS 'which life of the group';
COMMENT ON COLUMN rebalance_members.completed_at IS 'when the rebalance was over, as in `rebalances`';
COMMENT ON COLUMN rebalance_members.group_instance_id IS 'a static member''s own name; null: a dynamic member';
COMMENT ON COLUMN rebalance_members.client_id IS 'as the client called itself';
COMMENT ON COLUMN rebalance_members.joined_after_ms IS 'from the rebalance''s start until it joined, the last time if the rebalance fell back; null: it did not';
COMMENT ON COLUMN rebalance_members.synced_after_ms IS 'from the rebalance''s start until it asked for its assignment, or brought everybody''s; null: not before the rebalance was over';
COMMENT ON COLUMN rebalance_members.waited_for_ms IS 'how long the rebalance stood and waited for this member, all phases together';
COMMENT ON COLUMN rebalance_members.outcome IS '`joined`: it was a member when the rebalance was over; `evicted`: it was put out; `left`';
COMMENT ON COLUMN rebalance_members.client_host IS 'where its last join came from; null: the row is older than the column';

COMMENT ON TABLE member_sessions IS 'A member''s stay, or an hour of it: how it kept in touch, and how its stay ended. Written when the stay ends, with the change that ended it; of a stay that goes on, each hour. Partitioned by `ended_at`.';
COMMENT ON COLUMN member_sessions.shard_id IS 'the group''s shard';
COMMENT ON COLUMN member_sessions.group_created_at IS 'which life of the group';
COMMENT ON COLUMN member_sessions.group_instance_id IS 'a static member''s own name; null: a dynamic member';
COMMENT ON COLUMN member_sessions.client_id IS 'as the client called itself';
COMMENT ON COLUMN member_sessions.client_host IS 'where its last join came from';
COMMENT ON COLUMN member_sessions.generation IS 'the group''s generation when the row was written';
COMMENT ON COLUMN member_sessions.session_timeout_ms IS 'the session timeout in force last; what it asked for, if it never had a session';
COMMENT ON COLUMN member_sessions.joined_at IS 'when it first joined, as in `members`: the same in all rows of a stay';
COMMENT ON COLUMN member_sessions.started_at IS 'from when on this row measures';
COMMENT ON COLUMN member_sessions.ended_at IS 'until when';
COMMENT ON COLUMN member_sessions.end_reason IS '`left`, `session_expired`, `rebalance_timeout`, `sync_timeout`, `admin`; `replaced`: a static member''s place was taken by a new process; `hour`: the stay goes on';
COMMENT ON COLUMN member_sessions.last_heartbeat_at IS 'when it was last heard in this row''s time; null: never';
COMMENT ON COLUMN member_sessions.heartbeat_count IS 'how often it was heard: heartbeats, commits, syncs and joins, all that keep a session alive';
COMMENT ON COLUMN member_sessions.heartbeat_gap_ms_max IS 'the longest time between two such signs of life; null: there were no two';
COMMENT ON COLUMN member_sessions.heartbeat_gap_histogram IS 'how many of these gaps were at most 1 ms, 2 ms, 4 ms, … 2^21 ms (35 minutes), each beyond the bound before; the last of the 23 counts is of longer ones';

COMMENT ON TABLE assignments IS 'A span of ownership that is over: who owned which partitions of a topic. Only what changed hands is closed. Partitioned by `valid_to`. The spans still open are in `members.held`; `dashboards.ownership` shows both.';
COMMENT ON COLUMN assignments.shard_id IS 'the group''s shard';
COMMENT ON COLUMN assignments.group_created_at IS 'which life of the group';
COMMENT ON COLUMN assignments.rebalance_id IS 'the rebalance that gave the partitions to the member';
COMMENT ON COLUMN assignments.generation IS 'the generation in which it got them';
COMMENT ON COLUMN assignments.valid_from IS 'when ownership began';
COMMENT ON COLUMN assignments.valid_to IS 'when it ended';

COMMENT ON TABLE offset_history IS 'Where a partition stood: the last position of each minute, inserted when a later minute brings the next commit. So the newest position is in `offsets` only. Partitioned by `at`.';
COMMENT ON COLUMN offset_history.shard_id IS 'the group''s shard';
COMMENT ON COLUMN offset_history.at IS 'when it was committed';
COMMENT ON COLUMN offset_history.log_end_offset IS 'null: unknown';
COMMENT ON COLUMN offset_history.member_id IS 'who committed; empty: a consumer in no group';

COMMENT ON TABLE log_end_history IS 'Where a partition ended: the last end of each minute in which a trusted reporter named one, inserted when a later minute brings the next report. So the newest end is in `log_end_offsets` only. Partitioned by `at`.';
COMMENT ON COLUMN log_end_history.topic IS 'the key, with `partition` and `at`';
COMMENT ON COLUMN log_end_history.at IS 'when that end was reported last';

COMMENT ON TABLE maintenance_runs IS 'A proposal of a job, and what became of it. Indexes: `(kind, as_of DESC)`, and `(run_id)` of those that are `applying`.';
COMMENT ON COLUMN maintenance_runs.run_id IS 'the key';
COMMENT ON COLUMN maintenance_runs.kind IS 'the job: `offset_retention`, `group_cleanup` or `history_archive`; or what a node began by itself: `topic_deletion`, `undo`';
COMMENT ON COLUMN maintenance_runs.as_of IS 'the instant by which the job judged';
COMMENT ON COLUMN maintenance_runs.interval_start IS 'the data interval it ran for, if it had one';
COMMENT ON COLUMN maintenance_runs.status IS '`proposed`, `applying`, `applied` or `rejected`; `failed` is kept for later, and nothing writes it';
COMMENT ON COLUMN maintenance_runs.dry_run IS 'it was meant to be looked at only';
COMMENT ON COLUMN maintenance_runs.counts IS 'what the job counted; once it is applied, also the candidates by outcome';
COMMENT ON COLUMN maintenance_runs.created_at IS 'when it was proposed';
COMMENT ON COLUMN maintenance_runs.applied_by IS 'who had it applied';
COMMENT ON COLUMN maintenance_runs.change_id IS 'the change under which it archives what it takes';
COMMENT ON COLUMN maintenance_runs.finished_at IS 'when it was applied or rejected';
COMMENT ON COLUMN maintenance_runs.undoes IS 'of an `undo`: the change whose archived offsets come back';

COMMENT ON TABLE expiry_candidates IS 'An offset that a run proposes to expire, to take along with its topic, or to restore. Applying judges it again by the whole rule, as things are then. Those of a run that was rejected are removed after thirty days, here and in `cleanup_candidates`.';
COMMENT ON COLUMN expiry_candidates.run_id IS 'the key, with `group_id`, `topic` and `partition`';
COMMENT ON COLUMN expiry_candidates.shard_id IS 'the group''s shard';
COMMENT ON COLUMN expiry_candidates.generation IS 'as the job saw it; null: the group had no row';
COMMENT ON COLUMN expiry_candidates.state_since IS 'as the job saw it';
COMMENT ON COLUMN expiry_candidates.commit_version IS 'the commit that the job saw; a later one is kept; 0 in an undo, which goes by the archive';
COMMENT ON COLUMN expiry_candidates.committed_at IS 'when that was';
COMMENT ON COLUMN expiry_candidates.reason IS '`group_empty`, `simple_group`, `topic_unsubscribed` or `own_expiry`; `topic_deleted`; `undo`';
COMMENT ON COLUMN expiry_candidates.outcome IS 'null: undecided; `expired`, `removed` or `restored`; or why it was kept: `committed_since`, `already_gone`, `not_due`, `newer_there`, `gone_since`, `group_active`, `no_such_partition`';

COMMENT ON TABLE expiry_candidates_staging IS 'Where a job writes its candidates before they are published in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN expiry_candidates_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN expiry_candidates_staging.group_id IS 'as in `expiry_candidates`, this and the rest';

COMMENT ON TABLE cleanup_candidates IS 'A group that a run proposes to retire, because it is Empty and has no offset left. Applying judges it again, as things are then.';
COMMENT ON COLUMN cleanup_candidates.run_id IS 'the key, with `group_id`';
COMMENT ON COLUMN cleanup_candidates.shard_id IS 'the group''s shard';
COMMENT ON COLUMN cleanup_candidates.generation IS 'as the job saw it: a group that woke since has another';
COMMENT ON COLUMN cleanup_candidates.state_since IS 'as the job saw it, likewise';
COMMENT ON COLUMN cleanup_candidates.reason IS '`empty_without_offsets`';
COMMENT ON COLUMN cleanup_candidates.outcome IS 'null: undecided; `retired`; or why it was kept: `not_empty`, `woke_since`, `has_offsets`, `being_joined`, `already_gone`';

COMMENT ON TABLE cleanup_candidates_staging IS 'Where a job writes its candidates before they are published in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN cleanup_candidates_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN cleanup_candidates_staging.group_id IS 'as in `cleanup_candidates`, this and the rest';

COMMENT ON TABLE archive_candidates IS 'A day of a history table that a `history_archive` run copied and checked, and proposes to drop. Days that are rejected stay.';
COMMENT ON COLUMN archive_candidates.run_id IS 'the run; the key, with `table_name` and `day`';
COMMENT ON COLUMN archive_candidates.table_name IS 'the history table';
COMMENT ON COLUMN archive_candidates.day IS 'the day, in UTC, by the column that the table is partitioned by';
COMMENT ON COLUMN archive_candidates.source IS 'the partition that held the rows: the day''s own, or `<table>_default` for rows that came without one';
COMMENT ON COLUMN archive_candidates.path IS 'the directory of Parquet files that holds the copy';
COMMENT ON COLUMN archive_candidates.row_count IS 'its rows';
COMMENT ON COLUMN archive_candidates.checksum IS 'of the rows, as Postgres and the files both gave it';
COMMENT ON COLUMN archive_candidates.verified_at IS 'when the files were read back';
COMMENT ON COLUMN archive_candidates.outcome IS 'null: undecided; `dropped`; or why it stays: `changed_since` (rows came or went), `already_gone`, `still_open` (the day is not over), `copy_not_found` (the node finds no copy with as many rows), `unknown_partition`';

COMMENT ON TABLE archived_partitions IS 'A day of history, or the late rows of one, that has left Postgres. The rows are in `path`, as [maintenance](maintenance.md) tells.';
COMMENT ON COLUMN archived_partitions.table_name IS 'the history table; the key, with `day` and `run_id`';
COMMENT ON COLUMN archived_partitions.day IS 'the day, in UTC';
COMMENT ON COLUMN archived_partitions.run_id IS 'the run that dropped it';
COMMENT ON COLUMN archived_partitions.change_id IS 'the change in `changes`';
COMMENT ON COLUMN archived_partitions.source IS 'as in `archive_candidates`, this and the next four';
COMMENT ON COLUMN archived_partitions.dropped_at IS 'when the rows left Postgres';
COMMENT ON COLUMN archived_partitions.restored_at IS 'when they were brought back; null: the archive alone has them';

COMMENT ON TABLE archived_offsets IS 'An offset that was expired, deleted or reset, as it stood.';
COMMENT ON COLUMN archived_offsets.change_id IS 'the change that took it; the key, with `group_id`, `topic` and `partition`';
COMMENT ON COLUMN archived_offsets.shard_id IS 'the group''s shard';
COMMENT ON COLUMN archived_offsets.log_end_offset IS 'null: unknown';
COMMENT ON COLUMN archived_offsets.committed_at IS 'when it had been committed';
COMMENT ON COLUMN archived_offsets.archived_at IS 'when it was taken';
COMMENT ON COLUMN archived_offsets.cause IS '`expired`, `deleted`, `group_deleted`, `topic_deleted`, `reset`, or `undone`: what a reset had put there';
COMMENT ON COLUMN archived_offsets.log_end_at IS 'as in `offsets`';

COMMENT ON TABLE changes IS 'An act of an operator or a DAG, written in the transaction of what it changed. Acts that found nothing to change are here too; refused ones and dry runs are not.';
COMMENT ON COLUMN changes.change_id IS 'the key; a caller may choose it (`Idempotency-Key`)';
COMMENT ON COLUMN changes.at IS 'when';
COMMENT ON COLUMN changes.actor IS 'who';
COMMENT ON COLUMN changes.action IS 'what was done';
COMMENT ON COLUMN changes.group_id IS 'to which group, if to one';
COMMENT ON COLUMN changes.before IS 'the values before';
COMMENT ON COLUMN changes.after IS 'the values after';
COMMENT ON COLUMN changes.reason IS 'why, in the actor''s words';
COMMENT ON COLUMN changes.undone_at IS 'when it was taken back; null: it stands';
COMMENT ON COLUMN changes.undone_by IS 'the change that took it back';

COMMENT ON TABLE offset_expiry_forecasts IS 'What of a group will expire after the run''s instant, if nobody commits and the group stays as it is. A group that loses nothing has no row. What was due by then is in `expiry_candidates`.';
COMMENT ON COLUMN offset_expiry_forecasts.interval_start IS 'the data interval, in the key with `interval_end` and `group_id`; of a run by hand both are its instant';
COMMENT ON COLUMN offset_expiry_forecasts.shard_id IS 'the group''s shard';
COMMENT ON COLUMN offset_expiry_forecasts.run_id IS 'the maintenance run that it came with';
COMMENT ON COLUMN offset_expiry_forecasts.as_of IS 'the instant by which the job judged';
COMMENT ON COLUMN offset_expiry_forecasts.within_a_day IS 'offsets that will expire within a day of that';
COMMENT ON COLUMN offset_expiry_forecasts.within_a_week IS 'and within seven days, those of the first included';
COMMENT ON COLUMN offset_expiry_forecasts.next_at IS 'when the first of them will';

COMMENT ON TABLE offset_expiry_forecasts_staging IS 'Where a job writes its forecast before it is published in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN offset_expiry_forecasts_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN offset_expiry_forecasts_staging.group_id IS 'as in `offset_expiry_forecasts`, this and the rest';

COMMENT ON TABLE assignment_balance_audits IS 'How evenly a group''s partitions were spread when the job looked. Groups that were not Stable, or whose subscriptions cannot be read, have no row.';
COMMENT ON COLUMN assignment_balance_audits.interval_start IS 'the data interval, in the key with `interval_end` and `group_id`; of a run by hand both are its instant';
COMMENT ON COLUMN assignment_balance_audits.shard_id IS 'the group''s shard';
COMMENT ON COLUMN assignment_balance_audits.run_id IS 'the run';
COMMENT ON COLUMN assignment_balance_audits.as_of IS 'the instant by which the job was asked to judge';
COMMENT ON COLUMN assignment_balance_audits.generation IS 'the generation that was looked at';
COMMENT ON COLUMN assignment_balance_audits.topics IS 'topics that somebody subscribes to';
COMMENT ON COLUMN assignment_balance_audits.members IS 'members of the group';
COMMENT ON COLUMN assignment_balance_audits.idle_members IS 'those of them that hold nothing';
COMMENT ON COLUMN assignment_balance_audits.partitions IS 'partitions of topics that somebody subscribes to';
COMMENT ON COLUMN assignment_balance_audits.unassigned IS 'those of them that nobody holds';
COMMENT ON COLUMN assignment_balance_audits.partitions_max IS 'what the member with most holds';
COMMENT ON COLUMN assignment_balance_audits.partitions_mean IS 'what a member holds on average';
COMMENT ON COLUMN assignment_balance_audits.lag_max IS 'records not yet read by the member with most of them; null: no partition''s end is known';
COMMENT ON COLUMN assignment_balance_audits.lag_mean IS 'the same on average';
COMMENT ON COLUMN assignment_balance_audits.best_partitions_max IS 'what the member with most would hold at best';
COMMENT ON COLUMN assignment_balance_audits.misplaced IS 'partitions that lie beyond the shares at best, or lack in them';
COMMENT ON COLUMN assignment_balance_audits.has_better IS 'a better assignment exists for these subscriptions';
COMMENT ON COLUMN assignment_balance_audits.score IS 'from 0 to 100; 100: nothing better exists. [maintenance.md](maintenance.md#how-evenly-partitions-are-spread) has the formula';
COMMENT ON COLUMN assignment_balance_audits.moved IS 'partitions that were given to their holder with the present generation, and that somebody else held before';
COMMENT ON COLUMN assignment_balance_audits.moves_needed IS 'how many had to move at least';
COMMENT ON COLUMN assignment_balance_audits.score_before IS 'the score of the audit before; null: there was none';
COMMENT ON COLUMN assignment_balance_audits.trend IS '`first`, `better`, `worse` or `same`, compared with that';

COMMENT ON TABLE assignment_balance_audits_staging IS 'Where a job writes its rows before they replace those of the interval in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN assignment_balance_audits_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN assignment_balance_audits_staging.group_id IS 'as in `assignment_balance_audits`, this and the rest';

COMMENT ON TABLE assignment_balance_topics IS 'The same of every topic that somebody in the group subscribes to.';
COMMENT ON COLUMN assignment_balance_topics.interval_start IS 'the data interval, in the key with `interval_end` and `group_id` and `topic`; of a run by hand both are its instant';
COMMENT ON COLUMN assignment_balance_topics.shard_id IS 'the group''s shard';
COMMENT ON COLUMN assignment_balance_topics.run_id IS 'the run';
COMMENT ON COLUMN assignment_balance_topics.as_of IS 'the instant by which the job was asked to judge';
COMMENT ON COLUMN assignment_balance_topics.topic IS 'also in the key';
COMMENT ON COLUMN assignment_balance_topics.members IS 'members that subscribe to the topic';
COMMENT ON COLUMN assignment_balance_topics.idle_members IS 'those of them that hold nothing of it';
COMMENT ON COLUMN assignment_balance_topics.partitions IS 'partitions of the topic';
COMMENT ON COLUMN assignment_balance_topics.unassigned IS 'those of them that nobody holds';
COMMENT ON COLUMN assignment_balance_topics.partitions_max IS 'what the member with most holds';
COMMENT ON COLUMN assignment_balance_topics.partitions_mean IS 'what a member holds on average';
COMMENT ON COLUMN assignment_balance_topics.lag_max IS 'records not yet read by the member with most of them; null: no partition''s end is known';
COMMENT ON COLUMN assignment_balance_topics.lag_mean IS 'the same on average';
COMMENT ON COLUMN assignment_balance_topics.best_partitions_max IS 'what the member with most would hold at best, as everything else lies';
COMMENT ON COLUMN assignment_balance_topics.misplaced IS 'partitions that lie beyond the shares at best, or lack in them';
COMMENT ON COLUMN assignment_balance_topics.has_better IS 'the topic by itself could be spread better';
COMMENT ON COLUMN assignment_balance_topics.score IS 'as for a group, as everything else lies';
COMMENT ON COLUMN assignment_balance_topics.moved IS 'partitions that were given to their holder with the present generation, and that somebody else held before';
COMMENT ON COLUMN assignment_balance_topics.moves_needed IS 'those whose former holder is gone, or subscribes no more';

COMMENT ON TABLE assignment_balance_topics_staging IS 'Where a job writes its rows before they replace those of the interval in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN assignment_balance_topics_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN assignment_balance_topics_staging.group_id IS 'as in `assignment_balance_topics`, this and the rest';

COMMENT ON TABLE rebalance_frequency_reports IS 'How often, how long and why a group rebalanced within an interval. A group that neither rebalanced nor lost a member has no row. What a row tells depends on its interval only, whenever it was told.';
COMMENT ON COLUMN rebalance_frequency_reports.interval_start IS 'the data interval, in the key with `interval_end` and `group_id`';
COMMENT ON COLUMN rebalance_frequency_reports.shard_id IS 'the group''s shard';
COMMENT ON COLUMN rebalance_frequency_reports.run_id IS 'the run';
COMMENT ON COLUMN rebalance_frequency_reports.as_of IS 'the instant by which the job was asked to judge';
COMMENT ON COLUMN rebalance_frequency_reports.rebalances IS 'rebalances that were over within the interval';
COMMENT ON COLUMN rebalance_frequency_reports.completed IS 'by outcome';
COMMENT ON COLUMN rebalance_frequency_reports.by_trigger IS 'trigger → how many';
COMMENT ON COLUMN rebalance_frequency_reports.restarts IS 'how often they fell back before they were over';
COMMENT ON COLUMN rebalance_frequency_reports.took_ms_p50 IS 'half of them took no longer; null here and in the next two: there was none';
COMMENT ON COLUMN rebalance_frequency_reports.took_ms_p95 IS '19 of 20 took no longer';
COMMENT ON COLUMN rebalance_frequency_reports.took_ms_max IS 'the longest';
COMMENT ON COLUMN rebalance_frequency_reports.took_ms_total IS 'all of them together, their beginnings before the interval included';
COMMENT ON COLUMN rebalance_frequency_reports.rebalancing_ms IS 'how long of the interval the group rebalanced, what was not over by its end included';
COMMENT ON COLUMN rebalance_frequency_reports.rebalancing_share IS '`rebalancing_ms` as a share of `lived_ms`, from 0 to 1; in rows without `lived_ms` a share of the interval';
COMMENT ON COLUMN rebalance_frequency_reports.evicted IS 'members put out for their silence';
COMMENT ON COLUMN rebalance_frequency_reports.spuriously_evicted IS 'those of them that were back within the grace';
COMMENT ON COLUMN rebalance_frequency_reports.waited_for_member_id IS 'the consumer that the group waited for longest, all rebalances of the interval together, by its member that was waited for longest; null: there was none';
COMMENT ON COLUMN rebalance_frequency_reports.waited_for_instance_id IS 'null: a dynamic member';
COMMENT ON COLUMN rebalance_frequency_reports.waited_for_ms IS 'for how long, all its member ids together';
COMMENT ON COLUMN rebalance_frequency_reports.storms IS 'storms among the rebalances';
COMMENT ON COLUMN rebalance_frequency_reports.stormy_rebalances IS 'rebalances that were part of one';
COMMENT ON COLUMN rebalance_frequency_reports.unsettled_since IS 'since when the rebalance went on that was under way at the interval''s end; null: none was';
COMMENT ON COLUMN rebalance_frequency_reports.never_settles IS 'the group does not settle, by the rule in [maintenance.md](maintenance.md#how-often-groups-rebalance)';
COMMENT ON COLUMN rebalance_frequency_reports.lived_ms IS 'how long of the interval the group lived: from its creation until its death, its lives added up; null: the row is older than the column';
COMMENT ON COLUMN rebalance_frequency_reports.waited_for_client_host IS 'null: not stored then';
COMMENT ON COLUMN rebalance_frequency_reports.waited_for_members IS 'under how many member ids';

COMMENT ON TABLE rebalance_frequency_reports_staging IS 'Where a job writes its rows before they replace those of the interval in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN rebalance_frequency_reports_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN rebalance_frequency_reports_staging.group_id IS 'as in `rebalance_frequency_reports`, this and the rest';

COMMENT ON TABLE timeout_advice IS 'What a group''s own history says of its timeouts, and what the advice would have done: [tuning.md](tuning.md). Every group with a stay in the window has a row.';
COMMENT ON COLUMN timeout_advice.group_id IS 'the key, with `interval_start`, `interval_end` and `run_id`';
COMMENT ON COLUMN timeout_advice.shard_id IS 'the group''s shard';
COMMENT ON COLUMN timeout_advice.interval_start IS 'the data interval; of a run by hand both are its instant';
COMMENT ON COLUMN timeout_advice.interval_end IS 'where the window ends';
COMMENT ON COLUMN timeout_advice.run_id IS 'the run';
COMMENT ON COLUMN timeout_advice.as_of IS 'the instant by which the job judged';
COMMENT ON COLUMN timeout_advice.window_start IS 'from when on history was looked at';
COMMENT ON COLUMN timeout_advice.heartbeats IS 'signs of life in the window';
COMMENT ON COLUMN timeout_advice.session_present_ms IS 'the session timeout now: what is in force for the group, or what its members ask for (the longest); null: nobody was there';
COMMENT ON COLUMN timeout_advice.session_advised_ms IS 'what would be best; null: too little is known';
COMMENT ON COLUMN timeout_advice.session_verdict IS '`change`, `keep` or `too_little_data`';
COMMENT ON COLUMN timeout_advice.session_confidence IS '`high`, `medium`, `low` or `none`';
COMMENT ON COLUMN timeout_advice.session_because IS 'one sentence for a person';
COMMENT ON COLUMN timeout_advice.session_effect IS 'what the advised value would have done over the window: `spurious_evictions` that there were, `evictions_avoided` of them, `evictions_added` at most, `failures` (members that did not come back), and `detection_added_ms`: how much later those would have been seen, all in all; below zero: sooner. And the whole cost: `rebalances_…`, `evictions_…` (of live members), `stood_still_…_ms` and `repeated_work_…_ms`, each for the `present` value (where it is known) and the `advised` one';
COMMENT ON COLUMN timeout_advice.rebalance_present_ms IS 'the rebalance timeout now: likewise; null also where nobody is there to ask';
COMMENT ON COLUMN timeout_advice.rebalance_advised_ms IS 'what would be best; null: too little is known';
COMMENT ON COLUMN timeout_advice.rebalance_verdict IS '`change`, `keep` or `too_little_data`';
COMMENT ON COLUMN timeout_advice.rebalance_confidence IS '`high`, `medium`, `low` or `none`';
COMMENT ON COLUMN timeout_advice.rebalance_because IS 'one sentence for a person';
COMMENT ON COLUMN timeout_advice.rebalance_effect IS '`rejoins`, `rejoin_p99_ms`, `rejoin_max_ms`, `late_rejoins` (of live members that had been evicted), `no_shows` (members that did not come back), and the whole cost over the window: `rebalances_…`, `evictions_…` (of live members), `stood_still_…_ms` and `repeated_work_…_ms`, each for the `present` value (where it is known) and the `advised` one';
COMMENT ON COLUMN timeout_advice.initial_delay_present_ms IS '`group_initial_rebalance_delay_ms`: what is in force';
COMMENT ON COLUMN timeout_advice.initial_delay_advised_ms IS 'what would be best; null: too little is known';
COMMENT ON COLUMN timeout_advice.initial_delay_verdict IS '`change`, `keep` or `too_little_data`';
COMMENT ON COLUMN timeout_advice.initial_delay_confidence IS '`high`, `medium`, `low` or `none`';
COMMENT ON COLUMN timeout_advice.initial_delay_because IS 'one sentence for a person';
COMMENT ON COLUMN timeout_advice.initial_delay_effect IS 'what the advised value would have done over the window: `startups`, `rebalances_after_startup`, `rebalances_saved`, and `startup_added_ms`: how much later each start would be over';
COMMENT ON COLUMN timeout_advice.back_test IS 'how advice from the earlier days did on the `held_back_days`: `advised`, `present` (null: not known) and `fixed` (10 and 45 seconds), each with `timeout_ms`, `spurious_evictions` (at most) and `excess` (beyond what the days allow); `is_passed`: nothing else did better. Null: too little is known';
COMMENT ON COLUMN timeout_advice.recommendations IS 'changes of the clients'' configuration, each with `name` (`cooperative-sticky` or `static_membership`), `because`, and `effect`, what it would have saved over the window; null: the row is older than the column';

COMMENT ON TABLE timeout_advice_staging IS 'Where the job writes its rows before they are published in one transaction. Unlogged: empty after a crash. Nobody needs to read it.';
COMMENT ON COLUMN timeout_advice_staging.attempt_id IS 'the attempt that wrote the row';
COMMENT ON COLUMN timeout_advice_staging.group_id IS 'as in `timeout_advice`, this and the rest';

COMMENT ON VIEW dashboards.group_overview IS 'How is each group now, how far is it behind, and when and why did it last rebalance?';
COMMENT ON COLUMN dashboards.group_overview.partitions_committed IS 'partitions with a committed offset; null: none';
COMMENT ON COLUMN dashboards.group_overview.lag_records IS 'sum of log end minus committed offset, where the end is known, at most 2^63-1; null: nowhere, or it is at least 0';
COMMENT ON COLUMN dashboards.group_overview.last_committed_at IS 'the newest commit';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_at IS 'when the rebalance under way began, else the last one that is over';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_trigger IS 'why it began';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_trigger_member_id IS 'who triggered it; null: nobody, or it is under way';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_client_reason IS 'the client''s reason; null: none, or it is under way';
COMMENT ON COLUMN dashboards.group_overview.last_rebalance_outcome IS 'null: it is under way, or there was none';
COMMENT ON COLUMN dashboards.group_overview.node_id IS 'the node that serves the group';
COMMENT ON COLUMN dashboards.group_overview.is_lag_at_least IS '`lag_records` is a lower bound, because a log end is stale, as in `partition_lag`';
COMMENT ON COLUMN dashboards.group_overview.log_end_at IS 'when the ends of its logs were last reported: the oldest of these instants';

COMMENT ON VIEW dashboards.known_log_ends IS 'Where does the log of each committed partition end, as far as it is known, and when was that last reported? It is the furthest of the end in `log_end_offsets` and of the group''s own in `offsets`; every lag that Muster shows is from it.';
COMMENT ON COLUMN dashboards.known_log_ends.member_id IS 'who committed';
COMMENT ON COLUMN dashboards.known_log_ends.log_end_offset IS 'null: not known';
COMMENT ON COLUMN dashboards.known_log_ends.log_end_at IS 'when that end was last reported';

COMMENT ON VIEW dashboards.ownership IS 'Who owns, or owned, which partitions of a group, from when to when?';
COMMENT ON COLUMN dashboards.ownership.group_created_at IS 'which life of the group';
COMMENT ON COLUMN dashboards.ownership.rebalance_id IS 'the rebalance that gave the partitions to the member';
COMMENT ON COLUMN dashboards.ownership.generation IS 'the generation in which it got them';
COMMENT ON COLUMN dashboards.ownership.valid_to IS 'null: it owns them still';

COMMENT ON VIEW dashboards.slowest_members IS 'Which consumers did the last rebalances of each group wait for, and for how long? The last twenty rebalances of a group that exists, and of each the three consumers that it waited for longest. A consumer is an instance id, or else a client id and a host, whatever member ids it had.';
COMMENT ON COLUMN dashboards.slowest_members.started_at IS 'when the rebalance began';
COMMENT ON COLUMN dashboards.slowest_members.completed_at IS 'when it was over';
COMMENT ON COLUMN dashboards.slowest_members.trigger IS 'why it began';
COMMENT ON COLUMN dashboards.slowest_members.took_ms IS 'how long it took altogether';
COMMENT ON COLUMN dashboards.slowest_members.member_id IS 'the consumer''s member that was waited for longest';
COMMENT ON COLUMN dashboards.slowest_members.waited_for_ms IS 'for how long, all members of the consumer together';
COMMENT ON COLUMN dashboards.slowest_members.joined_after_ms IS 'as in `rebalance_members`, this and the rest';
COMMENT ON COLUMN dashboards.slowest_members.client_host IS 'null: not stored then';
COMMENT ON COLUMN dashboards.slowest_members.member_count IS 'under how many member ids the consumer was waited for';

COMMENT ON VIEW dashboards.spurious_evictions IS 'Who was put out and came back within a minute, so was alive all the time? The same consumer is the same instance id; of members without one, the same client id from the same host. Whose successor joined between its last sign of life and its eviction was dead, however soon the next one came, and is not told of. Name a range of `evicted_at` where history is long.';
COMMENT ON COLUMN dashboards.spurious_evictions.member_id IS 'who was put out';
COMMENT ON COLUMN dashboards.spurious_evictions.end_reason IS '`session_expired`, `rebalance_timeout` or `sync_timeout`';
COMMENT ON COLUMN dashboards.spurious_evictions.session_timeout_ms IS 'the session timeout that was in force';
COMMENT ON COLUMN dashboards.spurious_evictions.heartbeat_gap_ms_max IS 'its longest gap before';
COMMENT ON COLUMN dashboards.spurious_evictions.last_heartbeat_at IS 'when it was last heard; null: not since its row began';
COMMENT ON COLUMN dashboards.spurious_evictions.back_at IS 'when it joined again; from `last_heartbeat_at` until then it was silent';
COMMENT ON COLUMN dashboards.spurious_evictions.back_as IS 'under which member id';

COMMENT ON VIEW dashboards.rebalances_per_hour IS 'How often did each group rebalance in each hour of the last seven days, and why? A rebalance counts in the hour (UTC) in which it was over. Older ones are in `rebalances`.';
COMMENT ON COLUMN dashboards.rebalances_per_hour.hour IS 'when the hour began';
COMMENT ON COLUMN dashboards.rebalances_per_hour.trigger IS 'why they began';
COMMENT ON COLUMN dashboards.rebalances_per_hour.rebalances IS 'how many were over in that hour';
COMMENT ON COLUMN dashboards.rebalances_per_hour.completed IS 'of these, those that ended with the group Stable';
COMMENT ON COLUMN dashboards.rebalances_per_hour.emptied IS 'those that ended with nobody left';
COMMENT ON COLUMN dashboards.rebalances_per_hour.abandoned IS 'those that were forgotten at a take-over';
COMMENT ON COLUMN dashboards.rebalances_per_hour.restarts IS 'how often they fell back to joining';
COMMENT ON COLUMN dashboards.rebalances_per_hour.partitions_moved IS 'partitions that went to another member';
COMMENT ON COLUMN dashboards.rebalances_per_hour.took_ms_total IS 'how long they took together';
COMMENT ON COLUMN dashboards.rebalances_per_hour.took_ms_max IS 'how long the longest took';

COMMENT ON VIEW dashboards.unsettled_groups IS 'Which groups are in the middle of a rebalance, since when, why, until when at the latest, and which members have not joined or not synced? The `awaited_` columns show what the node last stored (`groups.awaited_members`): they are null for the first five seconds of a rebalance (`MUSTER_AWAITED_MEMBERS_AFTER_MS`) and are at most a second old. For the present moment ask `node_url`: `waiting_for` of `GET /v1/groups/{group_id}`. The `last_waited_for_` columns are about the rebalance before this one, whose slowest member need not be the one that is awaited now.';
COMMENT ON COLUMN dashboards.unsettled_groups.state IS '`PreparingRebalance` or `CompletingRebalance`';
COMMENT ON COLUMN dashboards.unsettled_groups.state_since IS 'when this phase began';
COMMENT ON COLUMN dashboards.unsettled_groups.rebalance_started_at IS 'when the rebalance began, however often it fell back since';
COMMENT ON COLUMN dashboards.unsettled_groups.rebalance_trigger IS 'why';
COMMENT ON COLUMN dashboards.unsettled_groups.trigger_member_id IS 'who triggered it; null: nobody';
COMMENT ON COLUMN dashboards.unsettled_groups.client_reason IS 'what the client gave as its reason';
COMMENT ON COLUMN dashboards.unsettled_groups.restarts IS 'how often it fell back to joining';
COMMENT ON COLUMN dashboards.unsettled_groups.rebalance_timeout_ms IS 'the group''s or the cluster''s configured one, else the longest that a member asked for';
COMMENT ON COLUMN dashboards.unsettled_groups.settles_by IS 'when the phase ends at the latest by that; null: not known';
COMMENT ON COLUMN dashboards.unsettled_groups.last_waited_for_client_id IS 'the member that the rebalance before this one waited for longest; null: it waited for none';
COMMENT ON COLUMN dashboards.unsettled_groups.last_waited_for_instance_id IS 'its instance id, if it is a static member';
COMMENT ON COLUMN dashboards.unsettled_groups.last_waited_for_ms IS 'for how long';
COMMENT ON COLUMN dashboards.unsettled_groups.node_id IS 'the node that serves the group; null: none';
COMMENT ON COLUMN dashboards.unsettled_groups.node_url IS 'where to ask it';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_phase IS '`join`: the awaited members have not joined; `sync`: they have not synced; null: none are stored';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_since IS 'since when they are awaited: when the phase began';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_count IS 'how many members are awaited';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_member_ids IS 'their member ids, a hundred at most; in a sync phase the leader comes first';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_instance_ids IS 'their instance ids, in the same order; null for a dynamic member';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_client_ids IS 'their client ids; null for a pending member, which has an id and has not joined yet';
COMMENT ON COLUMN dashboards.unsettled_groups.awaited_client_hosts IS 'their hosts; likewise';

COMMENT ON VIEW dashboards.offsets_expiring IS 'Which groups lose offsets within a week if nobody commits and they stay as they are, how many, and when first? This is what the newest run of `offset_retention` found; a run as of an instant to come counts from that instant on.';
COMMENT ON COLUMN dashboards.offsets_expiring.state IS 'as it is now; null: the group is gone';
COMMENT ON COLUMN dashboards.offsets_expiring.within_a_day IS 'offsets that expire within a day of `as_of`';
COMMENT ON COLUMN dashboards.offsets_expiring.within_a_week IS 'within seven days, those of the first included';
COMMENT ON COLUMN dashboards.offsets_expiring.next_at IS 'when the first of them does';
COMMENT ON COLUMN dashboards.offsets_expiring.as_of IS 'the instant by which the run judged';
COMMENT ON COLUMN dashboards.offsets_expiring.has_changed IS 'the group is in another state since then, or gone';

COMMENT ON VIEW dashboards.idle_members IS 'Which members hold nothing while others of their group do, and since when? Of groups that are Stable. A group with more members than partitions must have some.';
COMMENT ON COLUMN dashboards.idle_members.assigned_since IS 'since when it has its present assignment';
COMMENT ON COLUMN dashboards.idle_members.members_with_partitions IS 'members of the group that hold some';
COMMENT ON COLUMN dashboards.idle_members.partitions IS 'what they hold altogether';

COMMENT ON VIEW dashboards.recent_changes IS 'Who changed what in the last seven days, from what to what, why, and who took it back?';
COMMENT ON COLUMN dashboards.recent_changes.action IS 'as in `changes`';
COMMENT ON COLUMN dashboards.recent_changes.group_id IS 'null: the cluster''s';
COMMENT ON COLUMN dashboards.recent_changes.undone_at IS 'null: it stands';
COMMENT ON COLUMN dashboards.recent_changes.change_id IS 'what an undo names';

COMMENT ON VIEW dashboards.partition_lag IS 'How far is each partition of a group behind, in records and in seconds, and who holds it? Seconds are counted from when the log went past the committed offset; between two reports of its end it is taken to have grown evenly, as `coordinator_core.protocol.log_ends` has it. An end that was not reported for `dashboards.log_end_max_age()` is stale: records and seconds are then lower bounds, and null where that is 0. That function returns the cluster''s setting `log_end_max_age_ms` ([settings.md](settings.md#of-the-cluster)). Name a group: of all groups at once this looks at a lot of history.';
COMMENT ON COLUMN dashboards.partition_lag.member_id IS 'who holds it now; null: nobody';
COMMENT ON COLUMN dashboards.partition_lag.log_end_offset IS 'as in `known_log_ends`';
COMMENT ON COLUMN dashboards.partition_lag.lag_records IS 'null: no end is known, or it is at least 0';
COMMENT ON COLUMN dashboards.partition_lag.lag_seconds IS 'how long ago the log went past the committed offset; 0: it has not; null: as above';
COMMENT ON COLUMN dashboards.partition_lag.is_lag_at_least IS 'it may be longer: the end is stale, or of a day ago and before nothing is known';
COMMENT ON COLUMN dashboards.partition_lag.log_end_at IS 'when that end was last reported';
COMMENT ON COLUMN dashboards.partition_lag.is_log_end_stale IS 'that was longer ago than `dashboards.log_end_max_age()`';

COMMENT ON VIEW dashboards.lag_history IS 'How far was each partition of a group behind, minute by minute, while it ran, rebalanced or stood still? One row for each minute in which the partition was committed, its present position, and one for each minute in which a trusted reporter named the end of its log: a group that commits nothing has rows as well. Deleted ends do not count. Name a range of `at`.';
COMMENT ON COLUMN dashboards.lag_history.at IS 'when that was committed, or the end reported';
COMMENT ON COLUMN dashboards.lag_history.log_end_offset IS 'as known at that instant';
COMMENT ON COLUMN dashboards.lag_history.lag_records IS 'null: no end was known, or it is at least 0';
COMMENT ON COLUMN dashboards.lag_history.member_id IS 'who committed it';
COMMENT ON COLUMN dashboards.lag_history.log_end_at IS 'when that end had last been reported';
COMMENT ON COLUMN dashboards.lag_history.is_lag_at_least IS 'that was more than `dashboards.log_end_max_age()` before, so the lag is a lower bound';

COMMENT ON VIEW dashboards.newest_runs IS 'When did each job last run, and as of when? Of a job that proposes this is the newest proposal; of one that reports, the newest report of any group, so a job that had nothing to report on is missing. A run as of an instant to come counts from that instant on.';
COMMENT ON COLUMN dashboards.newest_runs.kind IS 'the job, which is also its DAG';
COMMENT ON COLUMN dashboards.newest_runs.as_of IS 'the instant by which it judged';
COMMENT ON COLUMN dashboards.newest_runs.status IS 'as in `maintenance_runs`; null: a report has none';
