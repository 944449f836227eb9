"""Laws that hold whatever members, operators, time and lost nodes do to a group."""
