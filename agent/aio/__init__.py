"""The agent over asyncio and aiohttp, which the extra `aio` adds.

async with ConsumerAgent("http://127.0.0.1:8080", "billing", ["invoices"]) as agent:
    while running:
        for partition, offset in (await agent.poll(timeout_s=1.0)).items():
            records = await read(partition, offset)
            ...
            agent.seek(partition, offset + len(records))
        await agent.commit()
"""

from agent.aio.consumer import ConsumerAgent

__all__ = ["ConsumerAgent"]
