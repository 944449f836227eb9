"""Transforms: functions from DataFrames and plain values to one DataFrame, without reads, writes or actions."""
