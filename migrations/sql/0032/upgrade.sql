ALTER TABLE incarnation ADD COLUMN cluster_id uuid NOT NULL DEFAULT gen_random_uuid();
