"""Stories of groups with real agents on a real node: callbacks of the consumers, and rows of the history."""
