"""A replica of asyncpg-lock with its defaults: see `contend.rs` for what it is given and what it prints.

Needs `pip install asyncpg-lock==0.0.3`.
"""

import argparse
import asyncio
import hashlib
import json
import time

from asyncpg_lock import AdvisoryLockGuard, connect_func


def say(event: str, name: int) -> None:
    print(json.dumps({"event": event, "name": name, "at_us": time.time_ns() // 1000}), flush=True)


async def campaign(guard: AdvisoryLockGuard, prefix: str, name: int) -> None:
    key = int.from_bytes(hashlib.sha256(f"{prefix} {name}".encode()).digest()[:8], signed=True)

    async def work() -> None:
        say("elected", name)
        await asyncio.Event().wait()

    await guard.run(key, work)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--names", type=int, default=1)
    flags = parser.parse_args()
    guard = AdvisoryLockGuard(connect=connect_func(flags.url))
    say("started", 0)
    await asyncio.gather(*(campaign(guard, flags.prefix, name) for name in range(flags.names)))


asyncio.run(main())
