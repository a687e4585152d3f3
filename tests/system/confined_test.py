"""Runs sluiced as it should run: without root, on a read-only file system. No log line, page,
message or process list may contain a secret.

Usage: confined_test.py SLUICED PYTHON_PROTO
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

SLUICED = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))

# pylint: disable=wrong-import-position
import running
from doors import Grpc, Http, api

RULES = """
domain: shop
rules:
  - name: pay
    match: {endpoint: /pay}
    limits: [{algorithm: fixed_window, limit: 1000000, window: 1d}]
"""
SETTINGS = """
redis: {{password_file: {folder}/password, timeout: 900ms}}
admin: {{token_file: {folder}/admin, listen: "off"}}
callers:
  checkout: {{token_file: {folder}/caller, domains: [shop]}}
"""
NOBODY = "65534"
# Makes the mounts of a new mount namespace read-only, gives up all privileges, and runs a command.
CONFINED = ["unshare", "--mount", "sh", "-euc", """
    findmnt --raw --noheadings --output TARGET | while read -r mount; do
      mount -o remount,bind,ro "$mount" 2>/dev/null || true
    done
    exec setpriv --reuid %s --regid %s --clear-groups --no-new-privs --inh-caps=-all \\
      --bounding-set=-all "$@"
    """ % (NOBODY, NOBODY), "confined"]


def why_not_confined():
    """Why the test cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "only root may make a mount namespace and change the user"
    tried = subprocess.run([*CONFINED, "sh", "-c", "! touch /tmp/here /dev/shm/here"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no read-only mount namespace here: {tried.stderr}"


def readable_directory():
    folder = running.directory()
    folder.chmod(0o755)
    return folder


def write_secret(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o400)
    os.chown(path, int(NOBODY), int(NOBODY))


class ConfinedTest(unittest.TestCase):
    @unittest.skipIf(why_not_confined(), why_not_confined())
    def test_runs_without_root_on_a_read_only_file_system(self):
        folder = readable_directory()
        program = folder / "sluiced"
        shutil.copy(SLUICED, program)
        (folder / "rules").mkdir()
        (folder / "rules/shop.yaml").write_text(RULES, encoding="utf-8")
        (folder / "settings.yaml").write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        for name in ("password", "admin", "caller"):
            write_secret(folder / name, f"{name}-secret\n")
        port = running.free_port()
        running.start(["/usr/bin/redis-server", "--port", str(port), "--save", "",
                       "--dir", running.directory(), "--requirepass", "password-secret"],
                      "eady to accept connections")
        sluiced, ready = running.start(
            [*CONFINED, program, "--config", folder / "settings.yaml", "--rules", folder / "rules",
             "--redis", f"redis://:wrong-secret@127.0.0.1:{port}",
             "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"], "ready grpc=")
        status = pathlib.Path(f"/proc/{sluiced.pid}/status").read_text(encoding="ascii")
        self.assertIn("\nUid:" + f"\t{NOBODY}" * 4, status)
        self.assertIn("\nCapEff:\t0000000000000000", status)
        caller = Grpc(ready.split("grpc=")[1].split()[0], "caller-secret")
        running.wait_until(lambda: caller.check().source == api.SOURCE_STORE, 30, "Redis decides")
        (folder / "rules/shop.yaml").write_text(RULES.replace("pay", "buy"), encoding="utf-8")
        web = Http(ready.split("http=")[1].split()[0], "admin-secret")
        running.wait_until(lambda: '"rule":"buy"' in web.ask("GET", "/rules")[1], 30,
                           "changed rules are used")

        told = "".join(sluiced.heard) + web.ask("GET", "/rules")[1] + web.ask("GET", "/metrics")[1]
        for name in ("cmdline", "comm"):
            told += pathlib.Path(f"/proc/{sluiced.pid}/{name}").read_text(encoding="utf-8")
        self.assertIn("redis://*@127.0.0.1", told)
        self.assertNotIn("-secret", told)
        sluiced.send_signal(signal.SIGTERM)
        self.assertEqual(sluiced.wait(timeout=60), 0)

    def test_errors_about_settings_contain_no_secret(self):
        folder = running.directory()
        (folder / "spaced").write_text("two-secret words-secret\x01\n", encoding="utf-8")
        (folder / "settings.yaml").write_text(
            "redis: {url: 'redis://me:file-secret@127.0.0.1:99999'}\n", encoding="utf-8")
        for arguments, variables in (
                (["--redis", "redis://me:url-secret@127.0.0.1:port"], {}),
                (["--redis", "redis://me:url%-secret@127.0.0.1"], {}),
                (["--redis=http://me:url-secret@127.0.0.1"], {}),
                (["--admin-token-file", folder / "spaced"], {}),
                (["--redis-password-file", folder / "spaced"], {}),
                (["--config", folder / "settings.yaml"], {}),
                ([], {"SLUICE_ADMIN_TOKEN": "token-secret\x01"}),
                ([], {"SLUICE_REDIS": "redis://me:url-secret@[::1"})):
            ended = subprocess.run(
                [SLUICED, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments],
                env=dict(os.environ, **variables), capture_output=True, text=True, timeout=60,
                check=False)
            told = ended.stdout + ended.stderr
            self.assertGreater(ended.returncode, 0, told)
            self.assertNotIn("-secret", told)
            self.assertTrue(told, arguments)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
