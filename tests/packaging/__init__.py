"""What a newcomer's first minutes depend on: the lock, the setup and the Makefile."""
