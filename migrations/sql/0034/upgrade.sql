-- A server that was built without LZ4 keeps Postgres' own method.

DO $$
BEGIN
    IF 'lz4' = ANY ((SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression')::text[]) THEN
        ALTER TABLE offset_log ALTER COLUMN data SET COMPRESSION lz4;
    END IF;
END
$$;
