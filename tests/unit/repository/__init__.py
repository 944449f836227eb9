"""Checks of the repository: citations, pages, file lengths, import contracts, locks, setup and images."""
