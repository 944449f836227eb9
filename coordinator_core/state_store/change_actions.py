"""The actions of `changes`; rows of a later release may have others."""

from enum import StrEnum


class ChangeAction(StrEnum):
    """The kind of a change. Source: tables.md, `changes`."""

    DELETE_OFFSETS = "delete_offsets"
    DELETE_GROUP = "delete_group"
    RESET_OFFSETS = "reset_offsets"
    FORCE_REBALANCE = "force_rebalance"
    REMOVE_MEMBER = "remove_member"
    RELOAD_GROUP = "reload_group"
    PUT_SETTINGS = "put_settings"
    PUT_TOPIC = "put_topic"
    DELETE_TOPIC = "delete_topic"
    DELETE_LOG_ENDS = "delete_log_ends"
    APPLY_RUN = "apply_run"
    REJECT_RUN = "reject_run"
    EXPIRE_RUN = "expire_run"
    DROP_PARTITION = "drop_history_partition"
    RESTORE_PARTITION = "restore_history_partition"
    START_INCARNATION = "start_incarnation"
    UNDO = "undo"
    ISSUE_TOKEN = "issue_token"
    EXPIRE_TOKEN = "expire_token"
    REVOKE_TOKEN = "revoke_token"
