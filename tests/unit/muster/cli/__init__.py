"""The texts that commands print."""
