"""`sluice top` against real servers: lines, JSON, the screen, failing servers, names of servers.

Usage: top_test.py SLUICE SLUICED CHOSEN_NAMES
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

import running
from watched import Watched, environment

SLUICE, SLUICED, CHOSEN_NAMES = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
LONG = 60


def watched(*flags, **options):
    return Watched(SLUICE, SLUICED, *flags, **options)


class Top:
    """Runs `sluice top`. The test reads its lines one by one."""

    def __init__(self, test, *arguments, **variables):
        self.process = subprocess.Popen(
            [SLUICE, "top", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=environment(**variables))
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def until(self, condition, what):
        """Reads lines until `condition(line)` is true. Returns the value of the condition."""
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline and (line := self.process.stdout.readline()):
            if found := condition(line):
                return found
        raise AssertionError(f"no line with {what}")

    def state(self, condition, what):
        return self.until(lambda line: (state := json.loads(line)) and condition(state) and state, what)


class LinesTest(unittest.TestCase):
    def test_lines_show_rules_and_the_most_denied_keys(self):
        server = watched()
        # An address that is given twice is one server.
        top = Top(self, "--addr", server.address, "--addr", server.address)
        top.until(lambda line: "1 server " in line, "the totals")
        server.check(25, "endpoint=/pay", "user=ada")
        top.until(lambda line: "shop/per-user  allowed" in line, "the rule")
        top.until(lambda line: "most denied: shop/per-user[0] user=ada  15 times" in line, "the key")
        top.process.send_signal(signal.SIGTERM)
        self.assertEqual(top.process.wait(LONG), 0)

    def test_count_ends_the_command_and_filter_selects_lines(self):
        server = watched()
        top = Top(self, "--addr", server.address, "--filter", "orders")
        top.until(lambda line: "1 server " in line, "the totals")
        server.check(3, "endpoint=/pay", "user=ada")
        server.check(3, "endpoint=/orders")
        seen = []
        top.until(lambda line: seen.append(line) or "shop/orders  allowed" in line, "the rule")
        self.assertFalse([line for line in seen if "shop/per-user  allowed" in line])
        counted = server.sluice("top", "--count", "2")
        self.assertEqual(counted.returncode, 0, counted.stderr)
        self.assertEqual(counted.stdout.count("1 server "), 2, counted.stdout)

    def test_if_no_server_answers_top_names_the_address_and_exits_2(self):
        result = subprocess.run([SLUICE, "top", "--addr", "unix:/nonexistent/s"], text=True,
                                capture_output=True, timeout=LONG, check=False, env=environment())
        self.assertEqual(result.returncode, 2)
        self.assertIn("no server answers at unix:/nonexistent/s.admin", result.stderr)
        self.assertIn("--admin", result.stderr)

    def test_server_that_is_down_is_shown_with_its_admin_address(self):
        server = watched()
        top = Top(self, "--json", "--addr", server.address, "--addr", "unix:/nonexistent/s")
        state = top.state(lambda it: it["servers"][0]["answers"], "an answer")
        self.assertEqual(state["servers"][1]["error"],
                         "no server at unix:/nonexistent/s.admin: No such file or directory")

    def test_flag_admin_with_two_servers_is_an_error(self):
        result = subprocess.run(
            [SLUICE, "top", "--addr", "unix:/a", "--addr", "unix:/b", "--admin", "unix:/c"],
            text=True, capture_output=True, timeout=LONG, check=False, env=environment())
        self.assertEqual(result.returncode, 2)
        self.assertIn("--admin: belongs to one server", result.stderr)


class FleetTest(unittest.TestCase):
    def test_servers_on_one_redis_are_shown_with_store_fleet_size_and_merged_keys(self):
        folder = running.directory()
        redis, url = running.start_redis(folder)
        servers = [watched("--redis", url) for _ in range(2)]
        top = Top(self, "--json", *(word for it in servers for word in ("--addr", it.address)))
        state = top.state(lambda it: all(s["fleet_servers"] == 2 for s in it["servers"]),
                          "a fleet of two")
        for server in state["servers"]:
            self.assertEqual(server["store"]["kind"], "redis")
            self.assertGreater(server["store"]["connections"], 0)
            self.assertEqual(server["store"]["ready"], server["store"]["connections"])
            self.assertEqual(server["store"]["breakers_open"], 0)
        servers[0].check(12, "endpoint=/pay", "user=ada")
        servers[1].check(9, "endpoint=/pay", "user=ada")
        # The first server allows 10 checks and denies 2. The second server denies 9.
        state = top.state(lambda it: it["most_denied"] and it["most_denied"][0]["count"] == 11,
                          "the denials of both")
        self.assertEqual(state["most_denied"][0]["subject"], "user=ada")
        self.assertEqual(state["most_used"][0]["count"], 10)
        redis.kill()
        redis.wait()
        top.state(lambda it: all(s["store"]["ready"] == 0 for s in it["servers"]),
                  "no ready connection")

        def failing(state):
            servers[0].check(1, "endpoint=/pay", "user=bob")
            store = state["servers"][0]["store"]
            return store["failures"] > 0 or store["breakers_open"] > 0
        top.state(failing, "failures of the store")

    def test_server_that_dies_is_shown_and_comes_back(self):
        servers = [watched(), watched()]
        top = Top(self, "--json", *(word for it in servers for word in ("--addr", it.address)))
        top.state(lambda it: all(s["answers"] for s in it["servers"]), "both servers")
        servers[1].kill()
        state = top.state(lambda it: it["servers"][1]["error"], "the dead server")
        self.assertTrue(state["servers"][0]["answers"])
        self.assertFalse(state["servers"][1]["answers"])
        servers[1].start()
        top.state(lambda it: it["servers"][1]["answers"] and not it["servers"][1]["error"],
                  "the server again")

    def test_server_that_hangs_is_shown(self):
        server = watched()
        top = Top(self, "--json", "--addr", server.address)
        top.state(lambda it: it["servers"][0]["answers"], "the server")
        with running.stopped(server.process):
            top.state(lambda it: it["servers"][0]["error"], "the server that hangs")

    def test_every_address_of_a_host_name_is_watched(self):
        folder = running.directory()
        port = running.free_port()
        (folder / "token").write_text("open-sesame-4711", encoding="ascii")
        for host in ("127.0.0.1", "127.0.0.2"):
            watched("--admin", "off", "--admin-token-file", folder / "token",
                    address=f"{host}:{port}")
        (folder / "names").write_text("127.0.0.1 0\n127.0.0.2 0\n", encoding="ascii")
        top = Top(self, "--json", "--addr", f"redis.test:{port}", LD_PRELOAD=CHOSEN_NAMES,
                  CHOSEN_NAMES=str(folder / "names"), SLUICE_TOKEN="open-sesame-4711")
        state = top.state(lambda it: all(s["answers"] for s in it["servers"]), "both addresses")
        self.assertEqual([it["name"] for it in state["servers"]],
                         [f"127.0.0.1:{port}", f"127.0.0.2:{port}"])

    def test_certificate_must_have_the_host_of_the_admin_address_if_one_is_given(self):
        folder = running.directory()
        certificate, key = folder / "tls.crt", folder / "tls.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-days", "2", "-subj", "/CN=sluice.example", "-keyout", key,
             "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate],
            check=True, capture_output=True)
        (folder / "token").write_text("open-sesame-4711", encoding="ascii")
        (folder / "names").write_text("127.0.0.1 0\n", encoding="ascii")
        admin = f"127.0.0.1:{running.free_port()}"
        watched("--admin", admin, "--admin-token-file", folder / "token", "--tls-certificate",
                certificate, "--tls-key", key)
        top = Top(self, "--json", "--addr", "redis.test:8081", "--admin", admin, "--tls-ca",
                  str(certificate), LD_PRELOAD=CHOSEN_NAMES, CHOSEN_NAMES=str(folder / "names"),
                  SLUICE_TOKEN="open-sesame-4711")
        state = top.state(lambda it: it["servers"][0]["answers"], "the server")
        self.assertEqual(state["servers"][0]["name"], admin)

    def test_server_given_by_its_admin_address_has_this_address_as_name(self):
        server = watched()
        top = Top(self, "--json", "--admin", f"{server.address}.admin")
        state = top.state(lambda it: it["servers"], "the server")
        self.assertEqual(state["servers"][0]["name"], f"{server.address}.admin")

    def test_wrong_token_is_an_error(self):
        folder = running.directory()
        (folder / "token").write_text("open-sesame-4711", encoding="ascii")
        server = watched("--admin-token-file", folder / "token")
        result = subprocess.run(
            [SLUICE, "top", "--addr", server.address, "--count", "1"], text=True,
            capture_output=True, timeout=LONG, check=False,
            env=environment(SLUICE_TOKEN="guess"))
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertIn("UNAUTHENTICATED", result.stderr)


class ScreenTest(unittest.TestCase):
    """The screen on a pseudo-terminal with 30 lines of 100 characters."""

    def setUp(self):
        self.server = watched()
        self.keyboard, terminal = pty.openpty()
        self.addCleanup(os.close, self.keyboard)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(terminal)
        self.terminal = terminal
        self.addCleanup(os.close, terminal)
        self.top = subprocess.Popen([SLUICE, "top", "--addr", self.server.address], stdin=terminal,
                                    stdout=terminal, stderr=terminal, env=environment())
        self.addCleanup(self.top.wait)
        self.addCleanup(self.top.kill)
        self.output = b""

    def read(self):
        while select.select([self.keyboard], [], [], 0)[0]:
            self.output += os.read(self.keyboard, 65536)
        return self.output

    def screen(self):
        """The last complete screen."""
        parts = self.read().split(b"\x1b[H")
        return next((it for it in reversed(parts) if b"\x1b[J" in it), b"").decode("ascii")

    def wait_for(self, *texts):
        running.wait_until(lambda: all(text in self.screen() for text in texts), LONG, str(texts))

    def press(self, keys):
        os.write(self.keyboard, keys)

    def test_key_presses_show_most_used_keys_filter_and_quit(self):
        self.wait_for("1 server", "q quit")
        self.server.check(25, "endpoint=/pay", "user=ada")
        self.wait_for("MOST DENIED", "user=ada")
        lines = self.screen().split("\r\n")
        self.assertLessEqual(len(lines), 30)
        self.press(b"k")
        self.wait_for("MOST USED")
        self.press(b"/nothing\r")
        self.wait_for("filter: nothing ")
        self.assertNotIn("user=ada", self.screen())
        self.press(b"q")
        self.assertEqual(self.top.wait(LONG), 0)
        self.assertTrue(self.read().endswith(b"\x1b[?1049l"))  # shows the previous screen
        self.assertEqual(termios.tcgetattr(self.terminal), self.before)

    def test_signal_restores_the_terminal(self):
        self.wait_for("q quit")
        self.top.send_signal(signal.SIGINT)
        self.assertEqual(self.top.wait(LONG), 0)
        self.assertEqual(termios.tcgetattr(self.terminal), self.before)

    def test_control_characters_of_keys_do_not_reach_the_terminal(self):
        self.wait_for("q quit")
        self.server.check(15, "endpoint=/pay", "user=\x1b]0;title\x07\x1b[31m\u202e\u9b42")
        self.wait_for("%1B")
        self.assertNotIn(b"\x1b]", self.output)
        self.assertNotIn(b"\x1b[31m", self.output)
        self.screen().encode("ascii")

    def test_server_that_dies_is_shown(self):
        self.wait_for("q quit")
        self.server.kill()
        self.wait_for("DOWN")
        self.server.start()
        running.wait_until(lambda: "DOWN" not in self.screen(), LONG, "the server again")


if __name__ == "__main__":
    unittest.main()
