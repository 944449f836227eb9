"""The commands, a module for each group; a command imports what it needs when it runs."""
