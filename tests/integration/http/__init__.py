"""The front door over real HTTP: a real node, a real database, and a client that sends exactly what it is told."""
