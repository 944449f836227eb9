"""The console: a web page of static files that uses the public API; every node serves it at `/`."""
