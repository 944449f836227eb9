"""Programs to read and to run: real agents that consume what a reader has at hand."""
