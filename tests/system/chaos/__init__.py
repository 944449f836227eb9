"""Real processes, killed, stopped and cut off while they work; at the end every promise is checked."""
