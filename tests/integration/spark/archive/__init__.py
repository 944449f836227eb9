"""Old history is copied to Parquet, dropped from Postgres, restored and reported from both."""
