"""Passes bytes between sluiced and Redis, later if told so.

Usage: delaying_proxy.py REDIS_SOCKET
Prints the port it listens on; each line of its input is a round trip's delay in milliseconds.
"""

import asyncio
import sys

delay = 0.0  # seconds, one way


async def pump(reader, writer):
    loop = asyncio.get_running_loop()
    due = 0.0
    while data := await reader.read(1 << 16):
        due = max(due + 1e-6, loop.time() + delay)  # later than what came before
        loop.call_at(due, writer.write, data)
    loop.call_at(max(due + 1e-6, loop.time()), writer.close)


async def connect(reader, writer):
    try:
        redis_reader, redis_writer = await asyncio.open_unix_connection(sys.argv[1])
        await asyncio.gather(pump(reader, redis_writer), pump(redis_reader, writer))
    except OSError:
        writer.close()


async def main():
    global delay
    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        delay = float(line) / 2000


asyncio.run(main())
