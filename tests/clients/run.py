"""Starts sluiced and runs one gRPC client program against it.

Usage: run.py [--tls] SLUICED -- CLIENT [ARGUMENT...]

There is one client program for each gRPC library: cpp/, python/, node/ and go/. All run the tests
below, in this order and under these names, and print one line for each. If a test fails, they exit
with status 1. Every call has a deadline: if the server does not answer, the call's test fails.

  unary           allowed, allowed, denied with retry_after
  batch           answers in the order of the checks; an invalid check has its own error
  stream          a frame and its answers, more frames, a half-close; every check is answered once
  metadata        the admin token is read, even if there are also binary and long values
  error_message   the status message arrives as the server wrote it, even if it is not ASCII
  large_batch     1,000 checks in nearly 1 MiB: more than HTTP/2's first window
  too_large       5 MiB: RESOURCE_EXHAUSTED, and the connection still works
  unknown_method  an unknown method of a known and of an unknown service: UNIMPLEMENTED
  gzip            compressed requests, unary and streamed; 5 MiB unpacked: RESOURCE_EXHAUSTED
  deadline        a call ends before its deadline; the deadline passes while a server is silent,
                  and while a stream is open
  cancel          a stream is canceled while checks are in flight
  concurrent      64 calls at once: exactly the limit is allowed; 64 streams are open at once
  health_check    SERVING; NOT_FOUND for an unknown service
  health_watch    SERVING; SERVICE_UNKNOWN for an unknown service
  reflection      (v1alpha) the services; the file that defines a symbol; an unknown symbol
  keepalive       pings every 10 s, with and without a call: the connection stays (only without TLS,
                  since this test waits for 35 s)
  reconnect       the server is killed and starts again: the same channel works again
  graceful_stop   the server is told to stop: Watch sends NOT_SERVING, and streams end with
                  UNAVAILABLE; the server starts again, and the same channel works

This program runs CLIENT with the given ARGUMENTs, followed by these flags:

  --address HOST:PORT   where sluiced listens
  --silent HOST:PORT    a port that accepts connections and never sends anything
  --token TOKEN         the admin token
  --tls-ca FILE         with --tls: the certificate authority of the server's certificate

If a client prints the line `@kill` or `@stop`, the server gets SIGKILL or SIGTERM. When the server
has been restarted on the same port, the client receives the line `started` on its standard input.
The flag `--only NAME,NAME` names the tests to run. If --tls is given, this program passes the flag
to leave out keepalive.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

RULES = """
domain: clients
rules:
  - name: pay
    match: {endpoint: /pay}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 2}
  - name: crowd
    match: {endpoint: /crowd}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 40}
  - name: many
    match: {endpoint: /many}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 100000}
"""
TOKEN = "of-the-client-tests"


class Sluiced:
    """A server that can be stopped and restarted on the same port."""

    def __init__(self, program, folder, certificate_flags):
        rules = folder / "rules"
        rules.mkdir()
        (rules / "clients.yaml").write_text(RULES, encoding="utf-8")
        self._command = [program, "--rules", rules, "--http", "127.0.0.1:0",
                         "--admin", "off", *certificate_flags]
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [*self._command, "--grpc", self.address], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, SLUICE_ADMIN_TOKEN=TOKEN))
        for line in self._process.stdout:
            sys.stderr.write(line)
            if "ready grpc=" in line:
                break
        else:
            raise SystemExit("run.py: sluiced ended before it was ready")
        self.address = line.split("grpc=")[1].split()[0]
        # If the pipe is not read, it fills up and blocks the server.
        threading.Thread(target=sys.stderr.writelines, args=(self._process.stdout,),
                         daemon=True).start()

    def end(self, how):
        self._process.send_signal(how)
        status = self._process.wait(timeout=30)
        if status != (0 if how == signal.SIGTERM else -how):
            raise SystemExit(f"run.py: sluiced ended with status {status} after {how.name}")


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(folder):
    """Makes a certificate authority (ca.pem), and a certificate of localhost and 127.0.0.1
    (server.pem, server.key)."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=Sluice test CA",
            "-keyout", folder / "ca.key", "-out", folder / "ca.pem")
    openssl("req", *key, "-subj", "/CN=localhost",
            "-keyout", folder / "server.key", "-out", folder / "server.csr")
    names = folder / "names.cnf"
    names.write_text("subjectAltName = DNS:localhost, IP:127.0.0.1\n", encoding="utf-8")
    openssl("x509", "-req", "-days", "2", "-in", folder / "server.csr", "-extfile", names,
            "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial",
            "-out", folder / "server.pem")
    return folder / "ca.pem", folder / "server.pem", folder / "server.key"


def run_client(command, sluiced):
    """Runs the client. If the client asks for it, stops and restarts the server. Returns the
    client's exit status."""
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as client:
        try:
            for line in client.stdout:
                if not line.startswith("@"):
                    print(line, end="", flush=True)
                    continue
                sluiced.end({"@kill": signal.SIGKILL, "@stop": signal.SIGTERM}[line.strip()])
                sluiced.start()
                client.stdin.write("started\n")
                client.stdin.flush()
            status = client.wait()
            if status < 0:
                print(f"FAIL the client has died: {signal.Signals(-status).name}", flush=True)
            return status
        finally:
            client.kill()


def main():
    if "--" not in sys.argv:
        raise SystemExit(__doc__)
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("sluiced")
    arguments = parser.parse_args(sys.argv[1:split])

    with tempfile.TemporaryDirectory(prefix="sluice-test-") as name, socket.socket() as silent:
        folder = pathlib.Path(name)
        # The kernel accepts connections for this socket; this program never does.
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        server_flags, client_flags = [], []
        if arguments.tls:
            authority, certificate, key = make_certificates(folder)
            server_flags = ["--tls-certificate", certificate, "--tls-key", key]
            checks = re.findall(r"^  ([a-z_]+)  ", __doc__, re.M)
            checks.remove("keepalive")
            client_flags = ["--tls-ca", authority, "--only", ",".join(checks)]
        sluiced = Sluiced(arguments.sluiced, folder, server_flags)
        try:
            status = run_client(
                [*sys.argv[split + 1:], "--address", sluiced.address,
                 "--silent", "127.0.0.1:%d" % silent.getsockname()[1], "--token", TOKEN,
                 *client_flags], sluiced)
        except BaseException:
            sluiced.end(signal.SIGKILL)
            raise
        sluiced.end(signal.SIGTERM)
    sys.exit(1 if status else 0)


if __name__ == "__main__":
    main()
