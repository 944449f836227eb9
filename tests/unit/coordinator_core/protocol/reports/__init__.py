"""The rules that reports go by, against slow twins that are obviously right."""
