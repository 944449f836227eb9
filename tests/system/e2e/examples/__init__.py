"""The examples and the page that is built on them, run as a reader runs them."""
