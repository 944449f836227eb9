"""The command line and the local platform of Muster; it may import every other folder, and none imports it."""
