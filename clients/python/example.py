#!/usr/bin/python3
"""A shop whose methods, HTTP requests and gRPC calls are limited. See README.md.

  example.py pay ADDRESS USER...              pays once for each user, by a decorated function
  example.py pay_async ADDRESS USER...        the same, by a coroutine
  example.py pay_block ADDRESS USER...        the same, by `async with`
  example.py first ADDRESS                    checks once, with the default options
  example.py crowd ADDRESS THREADS CALLS      pays CALLS times per thread; prints how many are allowed
  example.py queue ADDRESS CALLS              makes CALLS calls in sequence; prints the time in ms
  example.py modes ADDRESS                    charges 5 units, and gives 2 back; prints what is left
  example.py ask ADDRESS open|closed          checks once for each line of standard input
  example.py export ADDRESS                   holds a slot until standard input ends
  example.py reserve ADDRESS USER             three times: takes tokens, and settles with those used
  example.py reserve_async ADDRESS USER       the same, by `async with`
  example.py settle ADDRESS USER DRAIN SETTLE_FOR MAX
                                              takes tokens, and settles with those used after a line
                                              of standard input; DRAIN and SETTLE_FOR are in ms
  example.py outcomes ADDRESS                 works eight times, and reports how the work went
  example.py serve ADDRESS                    serves HTTP and gRPC until standard input ends
"""

import asyncio
import contextlib
import socket
import sys
import threading
import time
from concurrent import futures

import grpc
from sluice_client import (Client, Decision, Limited, LimitInterceptor, LimitMiddleware,
                           LimitWSGIMiddleware, NoAnswer, above)

DEADLINE = 60  # seconds; long, because an example must work on a busy machine


def pay(address, *users):
    with Client(address, deadline=DEADLINE) as client:
        @client.limit("shop", lambda user: {"endpoint": "/pay", "user": user})
        def charge(user):
            return f"{user} has paid"

        for user in users:
            try:
                print(charge(user))
            except Limited as limited:
                print(f"{user} is denied, retry in {limited.retry_after:.0f} s")


async def pay_async(address, *users):
    with Client(address, deadline=DEADLINE) as client:
        @client.limit("shop", lambda user: {"endpoint": "/pay", "user": user})
        async def charge(user):
            return f"{user} has paid"

        for user in users:
            try:
                print(await charge(user))
            except Limited as limited:
                print(f"{user} is denied, retry in {limited.retry_after:.0f} s")


async def pay_block(address, *users):
    with Client(address, deadline=DEADLINE) as client:
        for user in users:
            try:
                async with client.limited("shop", {"endpoint": "/pay", "user": user}):
                    print(f"{user} has paid")
            except Limited as limited:
                print(f"{user} is denied, retry in {limited.retry_after:.0f} s")


def describe(decision: Decision):
    return f"{'allowed' if decision.allowed else 'denied'} {'by Sluice' if decision.answered else 'without an answer'}"


def first(address):
    with Client(address) as client:
        print(describe(client.check("shop", {"endpoint": "/browse"})))


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


def modes(address):
    client = Client(address, deadline=DEADLINE)
    facts = {"endpoint": "/tokens"}
    charged = client.check("shop", facts, mode="charge", cost=3, amounts={"tokens": 2})
    client.check("shop", facts, mode="refund", cost=2, charged_at=charged.decided_at)
    print(client.check("shop", facts, mode="peek").response.limits[0].remaining)


def ask(address, without_answer):
    client = Client(address, deadline=1, without_answer=without_answer)
    for _ in sys.stdin:
        try:
            with client.limited("shop", {"endpoint": "/browse"}) as decision:
                print(describe(decision), flush=True)
        except NoAnswer as denial:
            print(describe(denial.decision), flush=True)


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


def reserve(address, user):
    facts = {"endpoint": "/model", "user": user}
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        with client.reserve("shop", facts, amounts={"tokens": 400}) as reservation:
            reservation.use(tokens=400)
            reservation.extend(tokens=300)  # the model's answer needs more tokens than were taken
            reservation.use(tokens=450)
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        with (contextlib.suppress(RuntimeError),
              client.reserve("shop", facts, amounts={"tokens": 100}) as reservation):
            reservation.use(tokens=50)
            raise RuntimeError("the work fails")
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        with client.reserve("shop", facts, amounts={"tokens": 500}) as reservation:
            reservation.use(tokens=20)
            try:
                reservation.extend(tokens=1)  # the first part has taken all tokens that were left
            except Limited:
                print("denied")
        try:
            reservation.extend(tokens=1)
        except RuntimeError:  # the reservation is settled
            pass
        else:
            raise AssertionError("extended after the block")


async def reserve_async(address, user):
    facts = {"endpoint": "/model", "user": user}
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        async with client.reserve("shop", facts, amounts={"tokens": 400}) as reservation:
            reservation.use(tokens=400)
            await reservation.extend_async(tokens=300)
            reservation.use(tokens=450)
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        with contextlib.suppress(RuntimeError):
            async with client.reserve("shop", facts, amounts={"tokens": 100}) as reservation:
                reservation.use(tokens=50)
                raise RuntimeError("the work fails")
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        async with client.reserve("shop", facts, amounts={"tokens": 500}) as reservation:
            reservation.use(tokens=20)
            try:
                await reservation.extend_async(tokens=1)
            except Limited:
                print("denied")
        try:
            await reservation.extend_async(tokens=1)
        except RuntimeError:  # the reservation is settled
            pass
        else:
            raise AssertionError("extended after the block")


def settle(address, user, drain, settle_for, max_settlements):
    client = Client(address, deadline=DEADLINE, lease_ttl=6, drain=int(drain) / 1000,
                    settle_for=int(settle_for) / 1000, max_settlements=int(max_settlements))
    facts = {"endpoint": "/model", "user": user}
    with client.reserve("shop", facts, amounts={"tokens": 300}) as reservation:
        reservation.extend(tokens=100)
        print("held", flush=True)
        sys.stdin.readline()
        reservation.use(tokens=100)
    print("settled", flush=True)
    print(client.close(), "lost")


def outcomes(address):
    facts = {"endpoint": "/database"}
    with Client(address, deadline=DEADLINE, drain=DEADLINE) as client:
        for error in (None, TimeoutError(), ConnectionRefusedError(), ValueError()):
            with contextlib.suppress(Exception), client.limited("shop", facts):
                if error:
                    raise error
        with client.limited("shop", facts) as decision:
            decision.report("overload")
        with client.limited("shop", facts) as decision:
            decision.report(duration=60)
            decision.report("ok")
        with client.reserve("shop", facts) as reservation:
            reservation.report("ignore")
    with Client(address, deadline=DEADLINE, drain=DEADLINE, overloaded=above(memory=0)) as client:
        with client.limited("shop", facts):
            pass
    print("done")


def serve_asgi(client):
    import fastapi
    import uvicorn

    app = fastapi.FastAPI()
    app.add_middleware(LimitMiddleware, client=client, domain="shop")

    @app.get("/{path:path}")
    def welcome():
        return fastapi.Response("welcome\n")

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    return listening.getsockname()[1]


def serve_wsgi(client):
    import flask
    import werkzeug.serving

    app = flask.Flask(__name__)
    app.wsgi_app = LimitWSGIMiddleware(app.wsgi_app, client, "shop")

    @app.get("/<path:path>")
    def welcome(path):
        return "welcome\n"

    class Quiet(werkzeug.serving.WSGIRequestHandler):
        def log(self, *_):
            pass

    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.port


def serve_grpc(client):
    health = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {
        "Check": grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01"),
        "Watch": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([b"\x08\x01"]))})
    limits = LimitInterceptor(client, "shop", lambda metadata: {"user": metadata.get("user", "")})
    server = grpc.server(futures.ThreadPoolExecutor(8), interceptors=[limits])
    server.add_generic_rpc_handlers([health])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def serve(address):
    client = Client(address, deadline=DEADLINE, without_answer="closed")
    server, port = serve_grpc(client)
    print(f"http_asgi={serve_asgi(client)} http_wsgi={serve_wsgi(client)} grpc={port}", flush=True)
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    commands = {"pay": pay, "pay_async": lambda *words: asyncio.run(pay_async(*words)),
                "pay_block": lambda *words: asyncio.run(pay_block(*words)), "first": first,
                "crowd": crowd, "queue": queue, "modes": modes, "ask": ask, "export": export,
                "reserve": reserve, "settle": settle, "outcomes": outcomes,
                "reserve_async": lambda *words: asyncio.run(reserve_async(*words)),
                "serve": serve}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
