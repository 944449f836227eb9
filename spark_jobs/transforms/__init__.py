"""Transforms take DataFrames and plain values and return one DataFrame; they neither read, write, count nor collect."""
