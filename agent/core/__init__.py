"""The consumer without I/O: coroutines over a `Runtime`, which threads or asyncio provide."""
