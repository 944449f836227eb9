ALTER TABLE maintenance_runs DROP COLUMN undoes;
ALTER TABLE changes DROP COLUMN undone_by;
