"""The coordinator: a group is a pure state machine, owned by one node, which stores decisions before it answers."""
