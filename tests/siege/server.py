"""The server under attack."""

import contextlib
import http.client
import multiprocessing
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "system"), str(TESTS / "bench/report")]

from attacker import HONEST_ADDRESS  # noqa: E402
from authority import Authority  # noqa: E402
from processes import Process, Redis, free_port, start, value_of  # noqa: E402

TIMEOUT = 2  # seconds until a request counts as not answered
CALLERS = {"honest": "shop", "rude": "rude", "proxy": "rude"}  # the domain of each
RULES = {
    "shop": """
domain: shop
rules:
  - name: pay
    match: {endpoint: /pay}
    per: [user]
    limits: [{algorithm: fixed_window, limit: 100000000, window: 1d}]
""",
    "rude": """
domain: rude
rules:
  - name: pay
    match: {endpoint: /pay}
    limits: [{algorithm: fixed_window, limit: 100000000, window: 1d}]
  - name: export
    match: {endpoint: /export}
    limits: [{algorithm: leaky_bucket, rate: 10/s, queue: 10000}]
  - name: login
    match: {endpoint: /login}
    limits: [{algorithm: fixed_window, limit: 5, window: 1d}]
  - name: login-of-client
    match: {endpoint: /client/login}
    per: [client_ip]
    limits: [{algorithm: fixed_window, limit: 5, window: 1d}]
""" + "".join(f"""
  - name: {'long-name-for-long-answers-' * 3}{number}
    match: {{endpoint: /wide}}
    limits: [{{algorithm: fixed_window, limit: 100000000, window: 1d}}]
""" for number in range(4))}
TLS = "tls: {{certificate: {folder}/server.pem, key: {folder}/server.key{client_ca}}}\n"


class Server:
    """A sluiced and the processes that it needs. An attack may choose:

    callers    further entries of sluiced's setting `callers`
    redis      a function that serves a listener as a hostile Redis, or True for a real Redis
    tls        whether sluiced uses TLS
    client_ca  whether every caller needs a certificate; only with tls
    nginx      whether nginx runs with docker/nginx/nginx.conf, at the address `self.nginx`
    files      how many files sluiced may have open
    """

    def __init__(self, programs, *, callers="", redis=None, tls=False, client_ca=False, nginx=False,
                 files=None):
        self.programs, self.tls = programs, tls
        self.tokens = {name: f"token-of-{name}" for name in (*CALLERS, "admin")}
        self.stack = contextlib.ExitStack()
        try:
            self.folder = pathlib.Path(self.stack.enter_context(
                tempfile.TemporaryDirectory(prefix="sluice-siege-")))
            if tls:
                self.make_certificates()
            self.write_files()
            (self.folder / "settings.yaml").write_text(
                (TLS.format(folder=self.folder,
                            client_ca=f", client_ca: {self.folder}/ca.pem" if client_ca else "")
                 if tls else "")
                + self.settings(callers), encoding="utf-8")
            self.start_sluiced(self.start_redis(redis), files)
            if nginx:
                self.start_nginx()
        except BaseException:
            self.stack.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def make_certificates(self):
        self.authority = Authority(self.folder)
        self.authority.issue("server", "DNS:localhost,IP:127.0.0.1")
        self.authority.issue("honest", "DNS:honest.example")

    def write_files(self):
        (self.folder / "rules").mkdir()
        for name, token in self.tokens.items():
            (self.folder / name).write_text(token + "\n", encoding="utf-8")
        for domain, rules in RULES.items():
            (self.folder / f"rules/{domain}.yaml").write_text(rules, encoding="utf-8")

    def settings(self, callers):
        known = "".join(f"  {name}: {{token_file: {self.folder}/{name}, domains: [{domain}]}}\n"
                        for name, domain in CALLERS.items())
        return (f"callers:\n{known}{callers}admin: {{token_file: {self.folder}/admin, "
                f"listen: 'unix:{self.folder}/admin.sock'}}\n")

    def start_redis(self, redis):
        """Starts the Redis that the attack chooses. Returns sluiced's flags for it."""
        if redis is True:
            return ["--redis", self.stack.enter_context(Redis(self.folder)).url]
        if redis is None:
            return []
        listener = self.stack.enter_context(socket.create_server((HONEST_ADDRESS, 0)))
        run_beside(self.stack, redis, listener)
        return ["--redis", f"redis://:{self.tokens['rude']}@{HONEST_ADDRESS}:"
                           f"{listener.getsockname()[1]}"]

    def start_sluiced(self, flags, files):
        limit = ["prlimit", f"--nofile={files}:{files}"] if files else []
        self.process = self.stack.enter_context(Process(
            [*limit, self.programs / "sluiced", "--config", self.folder / "settings.yaml",
             "--rules", self.folder / "rules", "--grpc", f"{HONEST_ADDRESS}:0",
             "--http", f"{HONEST_ADDRESS}:0", *flags], self.folder, "ready grpc="))
        self.pid = self.process.pid
        self.grpc, self.http = (value_of(door, self.process.ready_line) for door in ("grpc", "http"))

    def start_nginx(self):
        """Runs nginx with the shipped configuration, as if on another machine."""
        self.nginx = f"{HONEST_ADDRESS}:{free_port()}"
        backend = f"{HONEST_ADDRESS}:{free_port()}"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        changes = {
            "listen 8088": f"listen {self.nginx}", "127.0.0.1:8080": self.http,
            "127.0.0.1:9000": backend, "domain=web&": "domain=rude&",
            '# proxy_set_header Authorization "Bearer TOKEN"':
                f'proxy_set_header Authorization "Bearer {self.tokens["proxy"]}"',
            "http {": "http { server { listen " + backend + "; return 200 backend; } "
                      + "".join(f"{kind}_temp_path {self.folder}/{kind}; " for kind in kinds)}
        text = (TESTS.parent / "docker/nginx/nginx.conf").read_text(encoding="utf-8")
        for written, here in changes.items():
            assert written in text, written
            text = text.replace(written, here)
        (self.folder / "nginx.conf").write_text(text, encoding="utf-8")
        nginx = start(["/usr/sbin/nginx", "-p", self.folder, "-c",
                       self.folder / "nginx.conf", "-e", "stderr"], stderr=subprocess.DEVNULL)
        give_way(nginx.pid)
        self.stack.callback(nginx.wait)
        self.stack.callback(nginx.terminate)  # when nginx ends, its workers end, too
        host, port = self.nginx.split(":")
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((host, int(port))).close()
                return
            time.sleep(0.02)

    def log(self):
        return self.process._log.read_text(encoding="utf-8", errors="replace")

    def context(self, name="honest"):
        """The SSL context of a client with this certificate."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    def tool(self, *arguments):
        """The command line of `sluice` for an honest caller."""
        certificate = [] if not self.tls else [
            "--tls-ca", self.folder / "ca.pem", "--tls-server-name", "localhost",
            "--tls-certificate", self.folder / "honest.pem", "--tls-key",
            self.folder / "honest.key"]
        return [self.programs / "sluice", *arguments, "--addr", self.grpc, "--token-file",
                self.folder / "honest", *certificate]

    def memory(self, of="VmRSS"):
        """The server's memory in MiB. VmHWM is its maximum since `forget_peak`."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"^{of}:\s+(\d+) kB", status, re.M)[1]) / 1024

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def metric(self, series):
        """The value of a series on the page of metrics, which only operators can read."""
        page = ask(self, "/metrics", self.tokens["admin"])[1]
        found = re.search(rf"^{re.escape(series)} (.*)", page, re.M)
        return float(found[1]) if found else 0


def give_way(pid):
    """Gives the lowest priority to process `pid` and its session. Linux schedules sessions like
    processes (sched_autogroup), so nice(2) alone has an effect only within a session.
    """
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text("19", encoding="ascii")
    os.setpriority(os.PRIO_PROCESS, 0 if pid == "self" else pid, 19)


def run_beside(stack, function, *arguments):
    """Runs the function in a process of the lowest priority, as if on another machine. Returns the
    process.
    """
    def run():
        os.setsid()
        give_way("self")
        function(*arguments)

    process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    process.start()
    stack.callback(process.join)
    stack.callback(process.kill)
    return process


def connection_to(server, timeout=TIMEOUT):
    host, port = server.http.rsplit(":", 1)
    if server.tls:
        return http.client.HTTPSConnection(host, int(port), timeout=timeout,
                                           context=server.context())
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def ask(server, path, token=None, body=None, connection=None):
    """Sends an HTTP request, by default on a new connection. Returns the status and the text."""
    own = connection or connection_to(server)
    try:
        own.request("POST" if body else "GET", path, body,
                    {"Authorization": f"Bearer {token}"} if token else {})
        answer = own.getresponse()
        return answer.status, answer.read().decode()
    finally:
        if not connection:
            own.close()
