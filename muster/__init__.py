"""The command line and the local platform of Muster; no other package imports it."""
