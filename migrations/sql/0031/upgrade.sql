-- The audit log is append-only, and sealed minute by minute.

ALTER TABLE changes ADD COLUMN sealed_minute timestamptz;

CREATE TABLE change_seals (
    minute        timestamptz PRIMARY KEY,
    change_count  integer NOT NULL,
    seal          text NOT NULL,
    CONSTRAINT change_seals_times CHECK (minute >= '1970-01-01 00:00:00+00' AND minute < '10000-01-01 00:00:00+00')
);

-- A change may be marked as undone and as sealed, each once. Only a migration disables these triggers.
CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'changes' AND TG_OP = 'UPDATE' THEN
        IF to_jsonb(NEW) - '{undone_at,undone_by_change_id,sealed_minute}'::text[]
                = to_jsonb(OLD) - '{undone_at,undone_by_change_id,sealed_minute}'::text[]
            AND (OLD.undone_at IS NULL
                OR (NEW.undone_at, NEW.undone_by_change_id) = (OLD.undone_at, OLD.undone_by_change_id))
            AND (OLD.sealed_minute IS NULL OR NEW.sealed_minute = OLD.sealed_minute)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR DELETE ON changes
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER refuse_truncating BEFORE TRUNCATE ON changes
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER refuse_rewriting BEFORE UPDATE OR DELETE ON change_seals
    FOR EACH ROW EXECUTE FUNCTION refuse_rewriting();
CREATE TRIGGER refuse_truncating BEFORE TRUNCATE ON change_seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_rewriting();

-- The owner, too: as whom nodes log in.
REVOKE UPDATE, DELETE, TRUNCATE ON changes, change_seals FROM CURRENT_USER;
GRANT UPDATE (undone_at, undone_by_change_id, sealed_minute) ON changes TO CURRENT_USER;
