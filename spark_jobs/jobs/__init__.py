"""The jobs: each parses its arguments, opens a session, reads, transforms, writes and stops."""
