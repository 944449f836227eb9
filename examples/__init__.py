"""Example programs: consumers that use the agent."""
