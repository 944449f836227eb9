"""The archive: old days of the history tables in Parquet files, copied, verified, read and restored.

`days` lists days and their locations, `checksums` compares rows in Postgres and Spark, and `files` writes and reads a
day. `spark_jobs.history` reads Postgres and the archive as one.
"""
