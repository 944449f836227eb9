"""The agent over threads and urllib3: every call blocks."""
