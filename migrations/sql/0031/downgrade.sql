DROP TRIGGER refuse_rewriting ON changes;
DROP TRIGGER refuse_truncating ON changes;
REVOKE UPDATE (undone_at, undone_by_change_id, sealed_minute) ON changes FROM CURRENT_USER;
GRANT UPDATE, DELETE, TRUNCATE ON changes TO CURRENT_USER;
DROP TABLE change_seals;
DROP FUNCTION refuse_rewriting();
ALTER TABLE changes DROP COLUMN sealed_minute;
