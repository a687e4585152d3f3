"""`sluice health` against a real `sluiced` that serves or has stopped, over TCP, a unix socket and
TLS. Also against fake servers that are stopping or silent.

Usage: sluice_health_test.py SLUICE SLUICED
"""

import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
from concurrent import futures

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
import running

SLUICE, SLUICED = sys.argv.pop(1), sys.argv.pop(1)


def health(address, *flags, timeout="20s"):
    return subprocess.run([SLUICE, "health", "--addr", address, "--timeout", timeout, *flags],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def start(address, *flags):
    """Starts sluiced. Returns the process and its gRPC address."""
    process, ready = running.start(
        [SLUICED, "--grpc", address, "--http", "127.0.0.1:0", "--admin", "off", *flags],
        "ready grpc=")
    return process, ready.split("grpc=")[1].split()[0]


class HealthTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="sluice-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def assert_serving(self, address, *flags):
        result = health(address, *flags)
        self.assertEqual((result.returncode, result.stdout), (0, "serving\n"), result.stderr)

    def test_server_on_tcp_is_serving_until_it_ends(self):
        process, address = start("127.0.0.1:0")
        self.assert_serving(address)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)
        result = health(address)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"no server answers at {address}", result.stderr)

    def test_a_stopping_server_is_not_serving(self):
        method = grpc.unary_unary_rpc_method_handler(lambda _, context: b"\x08\x02")
        server = grpc.server(futures.ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": method})])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        result = health(f"127.0.0.1:{port}")
        self.assertEqual((result.returncode, result.stdout), (1, "not serving\n"), result.stderr)

    def test_a_unix_socket_has_the_mode_that_is_set(self):
        for mode in 0o660, 0o600, 0o666:
            with self.subTest(mode=oct(mode)):
                path = self.folder / f"{mode}"
                start(f"unix:{path}", "--grpc-socket-mode", f"{mode:04o}")
                self.assert_serving(f"unix:{path}")
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode)

    def test_server_with_tls_is_serving_if_its_certificate_is_trusted(self):
        certificate, key = self.folder / "tls.crt", self.folder / "tls.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=sluice.example",
             "-addext", "subjectAltName=DNS:sluice.example", "-keyout", key, "-out", certificate],
            check=True, capture_output=True)
        _, address = start("127.0.0.1:0", "--tls-certificate", certificate, "--tls-key", key)
        named = ("--tls-server-name", "sluice.example")
        self.assert_serving(address, "--tls-ca", certificate, *named)
        # Without --tls-server-name, the certificate does not match the address. Without --tls-ca,
        # the certificate is not trusted.
        self.assertEqual(health(address, "--tls-ca", certificate).returncode, 1)
        self.assertEqual(health(address, "--tls", *named).returncode, 1)
        check = subprocess.run(
            [SLUICE, "check", "shop", "--repeat", "3", "--addr", address, "--tls-ca", certificate,
             *named], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            check=False)
        self.assertEqual(check.returncode, 0, check.stderr)

    def test_a_silent_server_is_not_serving(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            result = health("127.0.0.1:%d" % silent.getsockname()[1], timeout="200ms")
            self.assertEqual(result.returncode, 1)

    def test_wrong_arguments_exit_2(self):
        self.assertEqual(health("nowhere").returncode, 2)


if __name__ == "__main__":
    unittest.main()
