"""The local platform: `muster up`, and what it starts on one machine."""
