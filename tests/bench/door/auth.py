#!/usr/bin/python3
"""Compares how many requests of proxies (/v1/auth) and unary gRPC calls are answered a second.

Usage: auth.py BIN [--users N] [--seconds S] [--rounds N]
BIN is the folder with sluiced and sluice. In each round, h2load requests /v1/auth on 64 persistent
connections. Then `sluice bench` calls CheckLimit on 64 connections. Then h2load requests a page
of nginx alone (`return 204`). Each connection has one request at a time. All users are equally
frequent; the Redis is real. Shows medians.
"""

import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))

from common import (CONNECTIONS, finished, folder_with_rules, load_options,  # noqa: E402
                    unary_calls)
from processes import Process, Redis, Sluiced, free_port, value_of  # noqa: E402

FIRST_USER = 1_000_000
NGINX = """
pid nginx.pid; error_log stderr notice; daemon off; worker_processes 2; events {{}}
http {{
  access_log off; keepalive_requests 1000000000; {temporary}
  server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }}
}}
"""


def main():
    options = load_options(__doc__)
    with (folder_with_rules() as (folder, rules), Redis(folder) as redis,
          start_nginx(folder) as nginx,
          Sluiced(options.bin / "sluiced", folder, rules, redis) as server):
        auth = f"http://{value_of('http', server.ready_line)}/v1/auth"
        rounds = [{"/v1/auth": over_http(folder, auth, options),
                   "CheckLimit": unary_calls(server.address, options, "--warm-up", "1s"),
                   "nginx, return 204": over_http(folder, nginx.address, options)}
                  for _ in range(options.rounds)]
    for name in rounds[0]:
        print(f"{name:18} {statistics.median(it[name] for it in rounds):10,.0f}/s")
    ratio = statistics.median(it["/v1/auth"] / it["CheckLimit"] for it in rounds)
    print(f"/v1/auth compared with CheckLimit: {ratio:.2f} times")


def start_nginx(folder):
    port = free_port()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    (folder / "nginx.conf").write_text(NGINX.format(
        port=port,
        temporary="".join(f"{kind}_temp_path {folder}/{kind}; " for kind in kinds)),
        encoding="utf-8")
    nginx = Process(["nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"], folder,
                    "start worker process ")
    nginx.address = f"http://127.0.0.1:{port}/"
    return nginx


def over_http(folder, url, options):
    """The answers a second."""
    uris = folder / "uris"
    with uris.open("w", encoding="utf-8") as file:
        file.writelines(f"{url}?domain=bench&endpoint=/pay&user={FIRST_USER + i}\n"
                        for i in range(options.users))
    command = ["h2load", "--h1", "-c", str(CONNECTIONS), "-D", str(options.seconds),
               "--warm-up-time", "1", "-i", uris]
    output = finished(command, options)
    failed = re.search(r"(\d+) failed, (\d+) errored", output)
    if failed.groups() != ("0", "0") or " 0 4xx, 0 5xx" not in output:
        sys.exit(output)
    return float(re.search(r"([\d.]+) req/s", output)[1])


if __name__ == "__main__":
    main()
