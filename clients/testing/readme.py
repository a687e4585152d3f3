#!/usr/bin/python3
"""Follows the README of a client in a new project outside the repository. The server has TLS and
`callers`.

Usage: readme.py BIN README ARCHIVE...

The section "A limited route" has the commands, and the project's files: each is a block below a
line with its name. The last command starts the project's server. The new folder also has the files
that the README requires: the archives, ca.pem and token. The environment, or a folder of settings
among the archives, tells the tools to work offline.
"""

import contextlib
import http.client
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
from free_port import free_port  # noqa: E402

RULES = pathlib.Path(__file__).with_name("rules")
SOON = 300  # seconds


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(folder):
    """Makes ca.pem, and a certificate for 127.0.0.1: server.pem, server.key."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=Sluice test CA",
            "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    openssl("req", *key, "-subj", "/CN=localhost",
            "-keyout", folder / "server.key", "-out", folder / "server.csr")
    (folder / "names.cnf").write_text("subjectAltName = DNS:localhost, IP:127.0.0.1\n")
    openssl("x509", "-req", "-days", "2", "-in", folder / "server.csr", "-extfile",
            folder / "names.cnf", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
            "-CAcreateserial", "-out", folder / "server.pem")


@contextlib.contextmanager
def sluiced(program, folder):
    """Runs a server that one caller may use, with a token. Yields the server's address."""
    make_certificates(folder)
    (folder / "token").write_text("of-the-shop\n")
    settings = folder / "sluiced.yaml"
    settings.write_text(f"""
tls: {{certificate: {folder}/server.pem, key: {folder}/server.key}}
callers:
  shop: {{token_file: {folder}/token, domains: [shop]}}
""")
    command = [program, "--config", settings, "--rules", RULES, "--grpc", "127.0.0.1:0",
               "--http", "127.0.0.1:0", "--admin", "off", "--drain", "1ms"]
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as server:
        try:
            for line in server.stderr:
                if "ready grpc=" in line:
                    break
            else:
                raise SystemExit("readme.py: sluiced ended before it was ready")
            yield line.split("grpc=")[1].split()[0]
        finally:
            server.kill()


def project_of(readme):
    """The files by name, and the commands."""
    section = re.search(r"^## A limited route\n(.*?)(?=^## |\Z)", readme, re.M | re.S)[1]
    files = dict(re.findall(r"^`([^`\n]+)`:\n\n```\w*\n(.*?)^```", section, re.M | re.S))
    commands = "".join(re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)).strip().splitlines()
    return files, commands


def pay_by_http(port, user):
    """Status and Retry-After of a payment."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON)
    with contextlib.closing(connection):
        connection.request("GET", f"/pay?user={user}")
        answer = connection.getresponse()
        return answer.status, answer.headers["Retry-After"]


def pay_by_grpc(port, user):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/shop.v1.Shop/Pay")
        try:
            call(b"", timeout=SOON, metadata=[("user", user)])
            return 200, None
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            return 429, int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"]) // 1000


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def main():
    binaries, readme, *archives = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="sluice-server-") as server, \
            tempfile.TemporaryDirectory(prefix="sluice-project-") as project:
        server, project = pathlib.Path(server), pathlib.Path(project)
        with sluiced(binaries / "sluiced", server) as address:
            for given in [server / "ca.pem", server / "token", *archives]:
                copy = shutil.copytree if given.is_dir() else shutil.copy
                copy(given, project / given.name)
            port = free_port()
            adapt = lambda text: text.replace("127.0.0.1:8081", address).replace("8000", str(port))
            files, commands = project_of(readme.read_text(encoding="utf-8"))
            for name, text in files.items():
                (project / name).parent.mkdir(parents=True, exist_ok=True)
                (project / name).write_text(adapt(text), encoding="utf-8")
            *install, serve = map(adapt, commands)
            subprocess.run(["bash", "-exc", "\n".join(install)], cwd=project, check=True,
                           stdin=subprocess.DEVNULL)
            print("+", serve, flush=True)
            with subprocess.Popen(shlex.split(serve), cwd=project, stdin=subprocess.DEVNULL) as shop:
                try:
                    pay(shop, port, pay_by_grpc if "grpc_server" in serve else pay_by_http)
                    shop.send_signal(signal.SIGTERM)  # gives the server time to end cleanly
                    shop.wait(SOON)
                finally:
                    shop.kill()
    print("readme.py: the route is limited")


def pay(shop, port, by):
    end = time.monotonic() + SOON
    while not listens(port):
        if shop.poll() is not None or time.monotonic() > end:
            raise SystemExit("readme.py: the project's server does not listen")
        time.sleep(0.05)
    answers = [by(port, user) for user in ("ann", "ann", "bob")]
    if [status for status, _ in answers] != [200, 429, 200] or not int(answers[1][1]) > 80_000:
        raise SystemExit(f"readme.py: expected 200, 429 with Retry-After, 200; got {answers}")


if __name__ == "__main__":
    main()
