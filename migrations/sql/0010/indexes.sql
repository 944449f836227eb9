CREATE INDEX maintenance_runs_kind_as_of ON maintenance_runs (kind, as_of DESC);
CREATE INDEX maintenance_runs_applying ON maintenance_runs (run_id) WHERE status = 'applying';
