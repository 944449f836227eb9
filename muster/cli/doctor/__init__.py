"""`muster doctor`: checks everything that Muster depends on."""
