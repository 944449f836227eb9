"""The driver on real threads and an in-memory store: decided, stored, said; leases; time; maintenance."""
