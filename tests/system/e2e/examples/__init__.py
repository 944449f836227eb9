"""The example programs, and the page docs/consume.md."""
