"""The group coordinator: a group is a pure state machine on one node, which stores each decision and then answers."""
