"""The server under attack, and who must be served meanwhile: honest callers and probes."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import multiprocessing
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "system"), str(TESTS / "bench/report")]

from attacker import HONEST_ADDRESS  # noqa: E402
from authority import Authority  # noqa: E402
from processes import Process, Redis, free_port, start, value_of  # noqa: E402

GRPC_RATE, HTTP_RATE = 500, 100  # requests a second of honest callers
HTTP_CALLERS = 5
TIMEOUT = 2  # seconds until a request counts as not answered
PROBES = 0.25  # seconds between them
CALLERS = {"honest": "shop", "rude": "rude", "proxy": "rude"}  # and the domain of each
RULES = """
domain: {domain}
rules:
  - name: pay
    match: {{endpoint: /pay}}
    per: [user]
    limits: [{{algorithm: fixed_window, limit: 100000000, window: 1d}}]
"""
TLS = "tls: {{certificate: {folder}/server.pem, key: {folder}/server.key{client_ca}}}\n"


class Server:
    """A sluiced and what it needs. What an attack may say of it:

    settings   more of the settings file; {folder} is where tokens and certificates are
    callers    more entries of its setting `callers`
    rules      more rules of the domain `rude`, which attackers and nginx may use
    redis      a function that serves the connections to a listener as a hostile Redis would, or True
    tls, client_ca   whether it uses TLS, and whether every caller then needs a certificate
    nginx      changes to docker/nginx/nginx.conf, which then runs as `self.nginx`
    files      the number of files that it may have open
    """

    def __init__(self, programs, *, settings="", callers="", rules="", redis=None, tls=False,
                 client_ca=False, nginx=None, files=None):
        self.programs, self.tls = programs, tls
        self.tokens = {name: f"token-of-{name}" for name in (*CALLERS, "admin")}
        self.stack = contextlib.ExitStack()
        try:
            self.folder = pathlib.Path(self.stack.enter_context(
                tempfile.TemporaryDirectory(prefix="sluice-siege-")))
            if tls:
                self.make_certificates()
            self.write_files(rules)
            (self.folder / "settings.yaml").write_text(
                (TLS.format(folder=self.folder,
                            client_ca=f", client_ca: {self.folder}/ca.pem" if client_ca else "")
                 if tls else "")
                + self.settings(settings, callers), encoding="utf-8")
            self.start_sluiced(self.start_redis(redis), files)
            if nginx is not None:
                self.start_nginx(nginx)
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

    def write_files(self, rules):
        (self.folder / "rules").mkdir()
        for name, token in self.tokens.items():
            (self.folder / name).write_text(token + "\n", encoding="utf-8")
        for domain, more in (("shop", ""), ("rude", rules)):
            (self.folder / f"rules/{domain}.yaml").write_text(
                RULES.format(domain=domain) + more, encoding="utf-8")

    def settings(self, more, callers):
        known = "".join(f"  {name}: {{token_file: {self.folder}/{name}, domains: [{domain}]}}\n"
                        for name, domain in CALLERS.items())
        return (f"callers:\n{known}{callers.format(folder=self.folder)}"
                f"admin: {{token_file: {self.folder}/admin, listen: 'unix:{self.folder}/admin.sock'}}\n"
                + more.format(folder=self.folder))

    def start_redis(self, redis):
        """Its flags for sluiced."""
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

    def start_nginx(self, changes):
        """The shipped one, as on another machine."""
        self.nginx = f"{HONEST_ADDRESS}:{free_port()}"
        backend = f"{HONEST_ADDRESS}:{free_port()}"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        changes = {
            "listen 8088": f"listen {self.nginx}", "127.0.0.1:8080": self.http,
            "127.0.0.1:9000": backend, "domain=web&": "domain=rude&",
            '# proxy_set_header Authorization "Bearer TOKEN"':
                f'proxy_set_header Authorization "Bearer {self.tokens["proxy"]}"',
            "http {": "http { server { listen " + backend + "; return 200 backend; } "
                      + "".join(f"{kind}_temp_path {self.folder}/{kind}; " for kind in kinds),
            **changes}
        text = (TESTS.parent / "docker/nginx/nginx.conf").read_text(encoding="utf-8")
        for written, here in changes.items():
            assert written in text, written
            text = text.replace(written, here)
        (self.folder / "nginx.conf").write_text(text, encoding="utf-8")
        nginx = start(["nice", "-n", "19", "/usr/sbin/nginx", "-p", self.folder, "-c",
                       self.folder / "nginx.conf", "-e", "stderr"], stderr=subprocess.DEVNULL)
        self.stack.callback(nginx.wait)
        self.stack.callback(nginx.terminate)  # it ends its workers
        host, port = self.nginx.split(":")
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((host, int(port))).close()
                return
            time.sleep(0.02)

    def log(self):
        return self.process._log.read_text(encoding="utf-8", errors="replace")

    def context(self, name="honest"):
        """Of a client with this certificate."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    def tool(self, *arguments):
        """A command of `sluice`, as an honest caller."""
        certificate = [] if not self.tls else [
            "--tls-ca", self.folder / "ca.pem", "--tls-server-name", "localhost",
            "--tls-certificate", self.folder / "honest.pem", "--tls-key",
            self.folder / "honest.key"]
        return [self.programs / "sluice", *arguments, "--addr", self.grpc, "--token-file",
                self.folder / "honest", *certificate]

    def memory(self, of="VmRSS"):
        """Megabytes; VmHWM is the most since `forget_peak`."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"^{of}:\s+(\d+) kB", status, re.M)[1]) / 1024

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def metric(self, series):
        """Its value on the page of metrics, which only operators see."""
        page = ask(self, "/metrics", self.tokens["admin"])[1]
        found = re.search(rf"^{re.escape(series)} (.*)", page, re.M)
        return float(found[1]) if found else 0


def run_beside(stack, function, *arguments):
    """Runs it in a process of the lowest priority, as on a machine of its own. Returns the process."""
    def run():
        import os
        os.nice(19)
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
    """Status and text over HTTP, by default on a connection of its own."""
    own = connection or connection_to(server)
    try:
        own.request("POST" if body else "GET", path, body,
                    {"Authorization": f"Bearer {token}"} if token else {})
        answer = own.getresponse()
        return answer.status, answer.read().decode()
    finally:
        if not connection:
            own.close()


class Callers:
    """Honest callers: `sluice bench` over gRPC, and some over HTTP. Half of these requests have a
    connection of their own.
    """

    def __init__(self, server, seconds):
        self.seconds = seconds
        self.bench = start(server.tool(
            "bench", "shop", "endpoint=/pay", "--rate", str(GRPC_RATE), "--connections", "4",
            "--keys", "100", "--warm-up", "200ms", "--duration", f"{seconds * 1000:.0f}ms",
            "--timeout", f"{TIMEOUT}s", "--json"),
            text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.results, sender = multiprocessing.Pipe(duplex=False)
        self.caller = multiprocessing.get_context("fork").Process(
            target=call_http, args=(server, seconds, sender), daemon=True)
        self.caller.start()

    def result(self):
        """For each door, the share of requests that were answered, and the p99 in milliseconds."""
        output, _ = self.bench.communicate(timeout=self.seconds + 60)
        times = self.results.recv() if self.results.poll(self.seconds + 60) else []
        self.caller.kill()
        self.caller.join()
        bench = json.loads(output or "{}")
        answered = bench.get("allowed", 0) + bench.get("denied", 0)
        return {"grpc": (answered / (GRPC_RATE * self.seconds),
                         bench["latency_us"]["p99"] / 1e3 if answered else float("inf")),
                "http": (len(times) / (HTTP_RATE * self.seconds),
                         times[len(times) * 99 // 100] * 1e3 if times else float("inf"))}


def call_http(server, seconds, sender):
    """Sends the sorted times of the requests that were answered."""
    with concurrent.futures.ThreadPoolExecutor(HTTP_CALLERS) as callers:
        times = callers.map(lambda _: call_http_once_in_a_while(server, seconds),
                            range(HTTP_CALLERS))
        sender.send(sorted(itertools.chain(*times)))


def call_http_once_in_a_while(server, seconds):
    """The time of each answer, from when its request was due."""
    body = json.dumps({"domain": "shop", "attributes": {"endpoint": "/pay", "user": "1"}})
    kept, times = connection_to(server), []
    begin = time.monotonic()
    for number in range(int(HTTP_RATE * seconds / HTTP_CALLERS)):
        due = begin + number * HTTP_CALLERS / HTTP_RATE
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() > begin + 2 * seconds + TIMEOUT:
            break
        try:
            status, _ = ask(server, "/v1/check", server.tokens["honest"], body,
                            kept if number % 2 else None)
            if status == 200:
                times.append(time.monotonic() - due)
        except (OSError, http.client.HTTPException):
            kept.close()  # it connects again
    kept.close()
    return times


class Probes(threading.Thread):
    """Asks as a kubelet does: `sluice health`, then /healthz."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stopped, self.sent, self.failed = server, threading.Event(), 0, []
        self.start()

    def run(self):
        while not self.stopped.wait(PROBES):
            for name, probe in (("sluice health", self.health), ("/healthz", self.healthz)):
                self.sent += 1
                if not probe():
                    self.failed.append(name)

    def health(self):
        return subprocess.run(self.server.tool("health", "--timeout", "1s"), check=False,
                              stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    def healthz(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ask(self.server, "/healthz")[0] == 200
        return False

    def result(self):
        """The number of probes, and the names of those without an answer."""
        self.stopped.set()
        self.join()
        return self.sent, self.failed
