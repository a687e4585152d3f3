"""What a service manager gets from sluiced: messages to $NOTIFY_SOCKET, and the exit status.

Usage: service_manager_test.py SLUICED
"""

import os
import signal
import socket
import subprocess
import sys
import unittest

import running

SLUICED = sys.argv.pop(1)
RULES = """
domain: shop
rules:
  - name: site
    limits: [{algorithm: fixed_window, limit: 1, window: 1h}]
"""
BROKEN = RULES.replace("limit: 1", "limit: none")
PATIENCE = 60


class Manager:
    """The service manager's socket: a path, or @ and a name in the abstract namespace."""

    def __init__(self, name):
        self.name = str(name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.name.replace("@", "\0", 1))
        self.socket.settimeout(PATIENCE)

    def close(self):
        self.socket.close()

    def next_state(self):
        """The next datagram, as a dictionary."""
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))

    def is_silent(self):
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(4096)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)


def command(folder, *flags):
    return [SLUICED, "--rules", folder, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--admin", "off", *flags]


class ServiceManagerTest(unittest.TestCase):
    def setUp(self):
        self.folder = running.directory()
        self.rules = self.folder / "shop.yaml"
        self.rules.write_text(RULES, encoding="utf-8")

    def manager(self, name=None):
        manager = Manager(name or self.folder / "notify")
        self.addCleanup(manager.close)
        return manager

    def start(self, manager, *flags):
        server = subprocess.Popen(command(self.folder, *flags), stdin=subprocess.DEVNULL,
                                  env=dict(os.environ, NOTIFY_SOCKET=manager.name))
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server

    def test_each_state_from_start_to_stop_is_one_datagram(self):
        manager = self.manager()
        server = self.start(manager)
        ready = manager.next_state()
        self.assertEqual(ready["READY"], "1")
        host, port = ready["STATUS"].split("grpc=")[1].split()[0].split(":")
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()

        server.send_signal(signal.SIGHUP)
        reloading = manager.next_state()
        self.assertEqual(reloading["RELOADING"], "1")
        self.assertGreater(int(reloading["MONOTONIC_USEC"]), 0)
        self.assertEqual(manager.next_state(), {"READY": "1", "STATUS": "rules: 1 in force"})

        self.rules.write_text(BROKEN, encoding="utf-8")
        server.send_signal(signal.SIGHUP)
        self.assertEqual(manager.next_state()["RELOADING"], "1")
        self.assertEqual(
            manager.next_state(),
            {"READY": "1", "STATUS": "rules: refused, see the log; 1 stay in force"})

        server.send_signal(signal.SIGTERM)
        self.assertEqual(manager.next_state()["STOPPING"], "1")
        self.assertEqual(server.wait(PATIENCE), 0)
        self.assertTrue(manager.is_silent())

    def test_broken_rules_end_the_start_without_ready(self):
        self.rules.write_text(BROKEN, encoding="utf-8")
        manager = self.manager()
        self.assertEqual(self.start(manager).wait(PATIENCE), 2)
        self.assertTrue(manager.is_silent())

    def test_an_address_in_use_ends_the_start_without_ready(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            manager = self.manager()
            server = self.start(manager, "--grpc", f"127.0.0.1:{other.getsockname()[1]}")
            self.assertEqual(server.wait(PATIENCE), 1)
        self.assertTrue(manager.is_silent())

    def test_a_server_without_its_redis_is_ready(self):
        manager = self.manager(f"@sluice-test-{os.getpid()}")
        self.start(manager, "--redis", f"unix://{self.folder}/no-redis.sock")
        self.assertEqual(manager.next_state()["READY"], "1")


if __name__ == "__main__":
    unittest.main()
