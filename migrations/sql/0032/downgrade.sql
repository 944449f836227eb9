ALTER TABLE incarnation DROP COLUMN cluster_id;
