"""The console in a real browser: what somebody on call does with it, and what must never happen."""
