"""History beyond a few weeks lies in Parquet files: copied, checked on both sides, read beside Postgres, brought back.

`days` knows which days there are and where each lies, `checksums` tells whether two places hold the same rows, and
`files` writes and reads a day. `spark_jobs.history` reads both places as one.
"""
