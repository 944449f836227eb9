DROP TABLE archive_candidates, archived_partitions;
