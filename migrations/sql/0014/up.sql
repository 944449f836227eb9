ALTER TABLE groups ADD COLUMN awaited_members jsonb;
