"""For the tests of the gateway: the programs that they start, and answers over HTTP. All are used
in one event loop."""

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from free_port import free_port  # noqa: E402

SOON = 120  # seconds; long, because the machine may be busy


def without_batch_errors(loop, context):
    """Ignores ExecuteBatchError. gRPC's server raises this error when it answers a caller that has
    canceled. The log would be long if it had all these errors."""
    if type(context.get("exception")).__name__ != "ExecuteBatchError":
        loop.default_exception_handler(context)


class Program:
    """A process that prints a line with `ready` to stderr. `lines` has the JSON lines of its
    stdout."""

    def __init__(self, command, **environment):
        self._command, self._environment = command, {**os.environ, **environment}
        self.lines = []

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            *map(str, self._command), env=self._environment, limit=1 << 20,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = []
        while b"ready" not in (line := await self.process.stderr.readline()):
            assert line, f"{self._command[0]} ended before it was ready: {self.said}"
            self.said.append(line)
        self._reading = [asyncio.ensure_future(self._read_errors()), asyncio.ensure_future(self._read())]
        return line.decode()

    async def _read(self):
        async for line in self.process.stdout:
            self.lines.append(json.loads(line))

    async def _read_errors(self):
        async for line in self.process.stderr:
            self.said.append(line)

    async def stop(self, how=signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)
        await self.process.wait()
        await asyncio.gather(*self._reading)

    async def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.stop()


async def start_redis(folder):
    port = free_port()
    redis = await asyncio.create_subprocess_exec(
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    await until(lambda: listens(port), "Redis listens")
    return redis, f"redis://127.0.0.1:{port}"


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


async def until(condition, what):
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, f"not done within {SOON} s: {what}"
        await asyncio.sleep(0.1)


class Answer:
    def __init__(self, status, headers, reader, writer):
        self.status, self.headers, self._reader, self._writer = status, headers, reader, writer

    async def events(self):
        """The data of a stream's events."""
        text = b""
        async for part in self._parts():
            *events, text = (text + part).split(b"\n\n")
            for event in events:
                yield event.split(b"data: ", 1)[1].decode()

    async def body(self):
        return b"".join([part async for part in self._parts()])

    async def _parts(self):
        if "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
            return
        while size := int(await self._reader.readline(), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)

    def close(self):
        self._writer.close()
