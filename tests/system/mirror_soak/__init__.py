"""Soak of the mirror: a real cluster and clients of several languages under faults, compared with the mirror's rows."""
