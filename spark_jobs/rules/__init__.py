"""Rules of `coordinator_core.protocol` as Spark column expressions; property tests compare the two."""
