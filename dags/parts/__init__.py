"""Tasks and defaults shared by the DAGs."""
