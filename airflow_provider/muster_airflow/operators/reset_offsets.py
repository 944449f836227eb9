"""The operator that resets the offsets of a group: a dry run, then the reset, once in a DAG run.

The id of the change is derived from the task and its DAG run, and is the request's idempotency key. A retried or
cleared task therefore finds the reset of its first try, and does not reset again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime as Instant  # noqa: N812 - `datetime` is the API's name of a field
from typing import Any
from uuid import UUID, uuid5

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from muster_airflow import fields
from muster_airflow.client import Json, NodesUnusable, RequestRefused
from muster_airflow.hooks.muster import MusterHook
from muster_airflow.templates import TextTemplates

CHANGE_NAMESPACE = UUID("2c9d7a52-0f5e-4a0b-9d0e-6f1f3c6f7b91")
"""Namespace of change ids; it never changes, so that a retried task finds its reset."""
NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
COLUMNS = ("topic", "partition", "old_offset", "new_offset", "note")


class ResetOffsetsOperator(TextTemplates, BaseOperator):
    """Resets the offsets of an Empty group.

    The log has the plan and the result as tables. XCom is the API's response: `group_id`, `dry_run`, `change_id` and
    `offsets` (`topic`, `partition`, `old_offset`, `new_offset`, `note`); and `undo`, the command that undoes it.

    A request that would be refused again fails the task without retries. NON_EMPTY_GROUP is retried, if the task has
    `retries`: stop the consumers, or wait for them with a `ConsumerGroupStateSensor`.

    Source: http-api.md "Resetting offsets".

    Args:
        group_id: the group.
        to: earliest, latest, offset, shift, datetime, current or given.
        reason: recorded in the audit log.
        offset: with `offset`, the new offset of every partition.
        shift_by: with `shift`, the number of records; negative ones are read again.
        datetime: with `datetime`, a time with time zone.
        offsets: with `given`, `{"topic", "partition", "offset"}` for each partition.
        topics: only these, as a name, or names or `{"topic", "partitions"}`; None: all with committed offsets.
        dry_run: whether to log and return the plan only. A text counts as true unless it is `False` or `false`.
        actor: recorded in the audit log, unless the connection's token names one.
        muster_conn_id: the connection.
        kwargs: arguments of `BaseOperator`.
    """

    template_fields: Sequence[str] = (
        "group_id",
        "to",
        "reason",
        "offset",
        "shift_by",
        "datetime",
        "offsets",
        "topics",
        "is_dry_run",
        "actor",
        "muster_conn_id",
    )

    def __init__(  # noqa: PLR0913 - the fields of the API
        self,
        *,
        group_id: str,
        to: str,
        reason: str,
        offset: int | str | None = None,
        shift_by: int | str | None = None,
        datetime: Instant | str | None = None,
        offsets: Sequence[Mapping[str, Any]] = (),
        topics: Sequence[str | Mapping[str, Any]] | str | None = None,
        dry_run: bool | str = False,
        actor: str = "dag:{{ dag.dag_id }}",
        muster_conn_id: str = MusterHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        """Set what to reset; each value may be a template."""
        super().__init__(**kwargs)
        self.group_id = group_id
        self.to = to
        self.reason = reason
        self.offset = offset
        self.shift_by = shift_by
        self.datetime = datetime
        self.offsets = offsets
        self.topics = topics
        self.is_dry_run = dry_run  # `dry_run` is a method of every operator.
        self.actor = actor
        self.muster_conn_id = muster_conn_id

    def execute(self, context: Context) -> Json:
        """Reset the offsets unless an earlier try has, and return the result."""
        try:
            self.group_id = fields.text("group_id", self.group_id)
            return self._reset(MusterHook(self.muster_conn_id), _change_id(context))
        except RequestRefused as refusal:
            if refusal.code == NON_EMPTY_GROUP:
                raise
            raise AirflowFailException(str(refusal)) from refusal
        except (NodesUnusable, ValueError) as failure:
            raise AirflowFailException(str(failure)) from failure

    def _reset(self, hook: MusterHook, change_id: str) -> Json:
        if not self.reason.strip():
            raise AirflowFailException("reason: a reset needs one, for the audit log")
        body = self._body()
        if str(self.is_dry_run).lower() != "false":
            return self._plan(hook, body)
        change = hook.find_change(change_id)
        if change is None:
            self._plan(hook, body)
        elif change["undone_at"]:
            raise AirflowFailException(
                f"An earlier try made change {change_id}, which was undone. Start a new DAG run."
            )
        else:
            self.log.info("An earlier try made change %s; nothing is reset again.", change_id)
        applied = {**body, "dry_run": False, "reason": self.reason}
        done = hook.reset_offsets(self.group_id, applied, actor=self.actor, idempotency_key=change_id)
        undo = f"muster changes undo {done['change_id']}"
        self.log.info("Reset by change %s; undo it with: %s\n%s", done["change_id"], undo, _table(done["offsets"]))
        return {**done, "undo": undo}

    def _plan(self, hook: MusterHook, body: Json) -> Json:
        plan = hook.reset_offsets(self.group_id, {**body, "dry_run": True}, actor=self.actor)
        self.log.info("Plan for group %s, to %s:\n%s", self.group_id, self.to, _table(plan["offsets"]))
        return {**plan, "undo": None}

    def _body(self) -> Json:
        """Return the request without `dry_run` and `reason`; the node checks which fields `to` requires."""
        at = self.datetime.isoformat() if isinstance(self.datetime, Instant) else self.datetime
        values = {
            "to": self.to,
            "offset": fields.whole_number("offset", self.offset),
            "shift_by": fields.whole_number("shift_by", self.shift_by),
            "datetime": at,
            "offsets": fields.offsets("offsets", self.offsets),
            "topics": fields.topics("topics", self.topics),
        }
        return {name: value for name, value in values.items() if value not in (None, [])}


def _change_id(context: Context) -> str:
    """Return the id of the change that this task makes in this DAG run, equal for every try."""
    instance = context["ti"]
    names = (instance.dag_id, instance.run_id, instance.task_id, str(instance.map_index))
    return str(uuid5(CHANGE_NAMESPACE, "/".join(names)))


def _table(offsets: Sequence[Mapping[str, Any]]) -> str:
    """Return offsets as a table of text."""
    rows = [[name.upper().replace("_", " ") for name in COLUMNS]]
    rows += [["-" if each[name] is None else str(each[name]) for name in COLUMNS] for each in offsets]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
