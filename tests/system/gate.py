"""A gate between sluiced and Redis. On command, it delays, splits or drops bytes.

Usage: gate.py REDIS_SOCKET [ADDRESS PORT]
Prints the port that it listens on. Each line of its input sets its behavior. The gate prints the
line when the behavior is in effect:
  delay MS   a round trip takes MS milliseconds longer
  cut        at random, a part of a reply is passed on, then the connection is closed
  bytes      replies come byte by byte
"""

import asyncio
import random
import sys

CUTS = 0.05  # of replies

how, delay = "delay", 0.0  # seconds, one way


async def pump(reader, writer, is_reply):
    loop = asyncio.get_running_loop()
    due = 0.0
    while data := await reader.read(1 << 16):
        if is_reply and how == "cut" and random.random() < CUTS:
            writer.write(data[:random.randrange(len(data))])
            break
        if is_reply and how == "bytes":
            for number in range(len(data)):
                writer.write(data[number:number + 1])
            continue
        due = max(due + 1e-6, loop.time() + delay)  # after the earlier bytes
        loop.call_at(due, writer.write, data)
    loop.call_at(max(due + 1e-6, loop.time()), writer.close)


async def connect(reader, writer):
    try:
        redis_reader, redis_writer = await asyncio.open_unix_connection(sys.argv[1])
        await asyncio.gather(pump(reader, redis_writer, False), pump(redis_reader, writer, True))
    except OSError:
        writer.close()


async def main():
    global how, delay
    address, port = sys.argv[2:4] or ("127.0.0.1", 0)
    server = await asyncio.start_server(connect, address, int(port))
    print("port", server.sockets[0].getsockname()[1], flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while words := (await lines.readline()).split():
        how, delay = words[0].decode(), float(words[1]) / 2000 if words[1:] else 0.0
        print("redis gate:", b" ".join(words).decode(), flush=True)


asyncio.run(main())
