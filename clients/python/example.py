#!/usr/bin/python3
"""A shop whose methods, HTTP requests and gRPC calls are limited. See README.md.

  example.py pay ADDRESS USER...              pays once for each user, by a decorated function
  example.py pay_async ADDRESS USER...        the same, by a coroutine
  example.py crowd ADDRESS THREADS CALLS      that many threads pay for one user; prints how many did
  example.py queue ADDRESS CALLS              makes that many calls, one after another; prints milliseconds
  example.py ask ADDRESS open|closed          checks once for each line of standard input
  example.py export ADDRESS                   holds a slot until standard input ends
  example.py serve ADDRESS                    serves HTTP and gRPC until standard input ends
"""

import asyncio
import sys
import time
from concurrent import futures

import grpc
from sluice_client import Client, LimitInterceptor, LimitMiddleware, Limited

DEADLINE = 60  # generous: an example must work on a busy machine


def pay(address, *users):
    client = Client(address, deadline=DEADLINE)

    @client.limit("shop", lambda user: {"endpoint": "/pay", "user": user})
    def charge(user):
        return f"{user} has paid"

    for user in users:
        try:
            print(charge(user))
        except Limited as limited:
            print(f"{user} is denied, retry in {limited.retry_after:.0f} s")


async def pay_async(address, *users):
    client = Client(address, deadline=DEADLINE)

    @client.limit("shop", lambda user: {"endpoint": "/pay", "user": user})
    async def charge(user):
        return f"{user} has paid"

    for user in users:
        try:
            print(await charge(user))
        except Limited as limited:
            print(f"{user} is denied, retry in {limited.retry_after:.0f} s")


def crowd(address, threads, calls):
    client = Client(address, deadline=DEADLINE)

    def run(_):
        facts = {"endpoint": "/pay", "user": "crowd"}
        return sum(client.check("shop", facts).allowed for _ in range(int(calls)))

    with futures.ThreadPoolExecutor(int(threads)) as pool:
        print(sum(pool.map(run, range(int(threads)))))


def queue(address, calls):
    client = Client(address, deadline=DEADLINE, max_wait=60)
    start = time.monotonic()
    for _ in range(int(calls)):
        with client.limited("shop", {"endpoint": "/queue"}):
            pass
    print(int((time.monotonic() - start) * 1000))


def ask(address, without_answer):
    client = Client(address, deadline=1, without_answer=without_answer)
    for _ in sys.stdin:
        decision = client.check("shop", {"endpoint": "/browse"})
        print("allowed" if decision.allowed else "denied",
              "by Sluice" if decision.answered else "without an answer", flush=True)


def export(address):
    try:
        with (Client(address, deadline=DEADLINE) as client,
              client.limited("shop", {"endpoint": "/export"})):
            print("held", flush=True)
            sys.stdin.read()
            raise RuntimeError("the work fails")
    except Limited:
        print("denied", flush=True)
    except RuntimeError:
        print("released", flush=True)


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"welcome\n"})


async def answer(app, reader, writer):
    """As much of HTTP/1.1 as an example without a web server needs."""
    method, path, _ = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].split()
    scope = {"type": "http", "method": method.decode(), "path": path.decode(), "headers": [],
             "client": writer.get_extra_info("peername")}

    async def send(message):
        if message["type"] == "http.response.start":
            writer.write(b"HTTP/1.1 %d -\r\nconnection: close\r\n" % message["status"])
            writer.writelines(b"%s: %s\r\n" % header for header in message["headers"])
            writer.write(b"\r\n")
        else:
            writer.write(message["body"])

    await app(scope, None, send)
    writer.close()


def serve(address):
    client = Client(address, deadline=DEADLINE)
    health = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {
        "Check": grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01"),
        "Watch": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([b"\x08\x01"]))})
    by_user = lambda metadata: {"user": metadata.get("user", "")}
    server = grpc.server(futures.ThreadPoolExecutor(8),
                         interceptors=[LimitInterceptor(client, "shop", by_user)])
    server.add_generic_rpc_handlers([health])
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    app = LimitMiddleware(application, client, "shop")

    async def listen():
        http = await asyncio.start_server(lambda r, w: answer(app, r, w), "127.0.0.1", 0)
        print(f"http={http.sockets[0].getsockname()[1]} grpc={grpc_port}", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(listen())
    server.stop(None)


if __name__ == "__main__":
    commands = {"pay": pay, "pay_async": lambda *words: asyncio.run(pay_async(*words)), "crowd": crowd,
                "queue": queue, "ask": ask, "export": export, "serve": serve}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
