"""The coordinator: a group is a pure state machine, one node owns it, and what it decides is stored, then said."""
