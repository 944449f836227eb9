"""The parts of the agent that need no network."""
