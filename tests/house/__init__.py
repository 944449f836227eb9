"""The house is in order: citations lead somewhere, files are short, and import contracts know every library."""
