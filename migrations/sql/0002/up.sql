ALTER TABLE changes ADD COLUMN undone_by uuid;
ALTER TABLE maintenance_runs ADD COLUMN undoes uuid;
