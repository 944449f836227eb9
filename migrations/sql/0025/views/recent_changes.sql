-- Who changed what in the last seven days, from what to what, why, and who undid it?
CREATE VIEW dashboards.recent_changes AS
SELECT
    changes.at,
    changes.actor,
    changes.action,
    changes.group_id,
    changes.reason,
    changes.before,
    changes.after,
    changes.undone_at,
    undo.actor AS undone_by_actor,
    undo.reason AS undone_reason,
    changes.change_id
FROM changes
LEFT JOIN changes AS undo ON undo.change_id = changes.undone_by_change_id
WHERE changes.at >= now() - interval '7 days';
