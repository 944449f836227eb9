"""Laws of the protocol, checked under random requests of members and operators, time, and lost nodes."""
