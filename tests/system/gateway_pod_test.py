"""The pod that Envoy Gateway starts: the image's command in its own root file system, with the
environment, certificates, names, ports and probes that the gateway sets. The test makes a network
namespace, so it needs root.

Usage: gateway_pod_test.py SLUICED PYTHON_PROTO PROTO_DIRECTORY NODE_MODULES

With AWAY=SECONDS in the environment, the control plane is unavailable for that long, and sluiced
pauses between attempts to connect as it does under the gateway. Without AWAY, the control plane is
unavailable for a moment, and the pauses are short.
"""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

NETWORK = "SLUICE_TEST_NETWORK"  # set if the test runs in its own network namespace
MAKE_NETWORK = ["unshare", "--net", "--mount", "sh", "-euc", 'ip link set lo up; exec "$@"', "pod"]


def cannot():
    """Why the pod cannot be made here; empty if it can."""
    if os.geteuid() != 0:
        return "only root may make namespaces and change the root directory"
    tried = subprocess.run([*MAKE_NETWORK, "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no network namespace here: {tried.stderr}"


if NETWORK not in os.environ and not cannot():
    os.execvpe(MAKE_NETWORK[0], [*MAKE_NETWORK, sys.executable, *sys.argv],
               {**os.environ, NETWORK: "1"})

SLUICED = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))
PROTOS_AND_MODULES = sys.argv.pop(1), sys.argv.pop(1)

# pylint: disable=wrong-import-position
import grpc
import running
from authority import Authority
from control_plane import LARGE_SET_TIMEOUT, ControlPlane, config
from doors import Grpc

TIMEOUT = 60
USER = "65532"
AWAY = float(os.environ.get("AWAY", "0"))
ENVIRONMENT = """
RUNTIME_ROOT=/data
RUNTIME_SUBDIRECTORY=ratelimit
RUNTIME_IGNOREDOTFILES=true
RUNTIME_WATCH_ROOT=false
LOG_LEVEL=info
USE_STATSD=false
STATSD_PORT=9125
USE_PROMETHEUS=true
PROMETHEUS_ADDR=:19001
CONFIG_TYPE=GRPC_XDS_SOTW
CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001
CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit
GRPC_SERVER_USE_TLS=true
GRPC_SERVER_TLS_CERT=/certs/tls.crt
GRPC_SERVER_TLS_KEY=/certs/tls.key
GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt
CONFIG_GRPC_XDS_SERVER_USE_TLS=true
CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt
CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key
CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt
FORCE_START_WITHOUT_INITIAL_CONFIG=true
REDIS_SOCKET_TYPE=tcp
REDIS_URL=redis.redis.svc:6379
""".split()
# Short pauses between attempts to connect. The gateway does not set these variables.
HURRY = ["XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=50ms", "XDS_CLIENT_BACKOFF_MAX_INTERVAL=200ms"]
# For a debug build on a busy machine.
PATIENCE = ["SLUICE_REDIS_TIMEOUT=900ms"]


class Pod:
    """A root file system that has only the program, its libraries, a hosts file and a secret."""

    def __init__(self):
        self.root = running.directory()
        self.root.chmod(0o755)
        libraries = subprocess.run(["ldd", SLUICED], check=True, capture_output=True, text=True)
        for library in re.findall(r"(/\S+) \(0x", libraries.stdout):
            self._copy(library, library)
        self._copy(SLUICED, "/usr/bin/sluiced")
        (self.root / "usr/bin/ratelimit").symlink_to("sluiced")
        (self.root / "bin").symlink_to("usr/bin")
        (self.root / "etc").mkdir()
        (self.root / "etc/hosts").write_text(
            "127.0.0.1 localhost envoy-gateway redis.redis.svc\n::1 localhost envoy-gateway\n",
            encoding="utf-8")
        (self.root / "certs").mkdir()
        (self.root / "proc").mkdir()
        self.authority = None
        self.secrets = 0

    def _copy(self, source, to):
        target = self.root / to.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def rotate(self):
        """Mounts certificates of a new authority, as the kubelet does. Returns the gateway's files:
        the certificate of the authority, the certificate and the key of the gateway."""
        self.secrets += 1
        made = running.directory()
        self.authority = Authority(made, f"ca-{self.secrets}")
        self.authority.issue("gateway", "DNS:envoy-gateway")
        self.authority.issue("pod", "DNS:envoy-ratelimit")
        certs = self.root / "certs"
        secret = certs / f"..{self.secrets}"
        secret.mkdir()
        for name, source in (("ca.crt", self.authority.ca), ("tls.crt", made / "pod.pem"),
                             ("tls.key", made / "pod.key")):
            shutil.copy(source, secret / name)
            (secret / name).chmod(0o644)
            if not (certs / name).is_symlink():
                (certs / name).symlink_to(f"..data/{name}")
        (certs / "next").symlink_to(secret.name)
        os.replace(certs / "next", certs / "..data")
        return self.authority.ca, made / "gateway.pem", made / "gateway.key"

    def start(self):
        environment = ENVIRONMENT + PATIENCE + (HURRY if not AWAY else [])
        script = """
            mount --bind "$1" "$1"
            mount -t proc proc "$1/proc"
            mount -o remount,bind,ro "$1"
            exec /usr/bin/python3 -c "$2" "$@"
            """
        # Gives up the rights of root after the chroot. This is in Python, since the pod's file
        # system has no program for it.
        confine = (f"import os, sys; root = sys.argv[1]; os.chroot(root); os.chdir('/');"
                   f"os.setgroups([]); os.setgid({USER}); os.setuid({USER});"
                   "os.execve('/bin/ratelimit', ['/bin/ratelimit'],"
                   " dict(it.split('=', 1) for it in sys.argv[3:]))")
        process, _ = running.start(
            ["unshare", "--mount", "sh", "-euc", script, "pod", self.root, confine, *environment],
            "ready grpc=")
        return process


def probe():
    """Probes as the kubelet does. Returns the status, or None if no answer comes in a second."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:8080/healthcheck", timeout=1) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def certificate_of(port):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
        with context.wrap_socket(connection) as wrapped:
            return wrapped.getpeercert(binary_form=True)


@unittest.skipIf(NETWORK not in os.environ and cannot(), cannot())
class GatewayPodTest(unittest.TestCase):
    def setUp(self):
        running.start_redis(running.directory(), "--port", "6379")
        self.pod = Pod()
        self.tls = self.pod.rotate()

    def start_plane(self):
        return ControlPlane(*PROTOS_AND_MODULES, port=18001, tls=self.tls)

    def envoy(self):
        credentials = grpc.ssl_channel_credentials(self.tls[0].read_bytes())
        return Grpc("127.0.0.1:8081", credentials=credentials,
                    options=[("grpc.ssl_target_name_override", "envoy-ratelimit"),
                             ("grpc.use_local_subchannel_pool", 1)])

    def answer(self, plane, version, *resources):
        plane.send(version, *resources)
        return plane.next()

    def test_pod_works_from_start_to_stop(self):
        # The control plane is unavailable at the start. Once Redis has answered, the probes
        # succeed, and everything is allowed.
        process = self.pod.start()
        running.wait_until(lambda: probe() == 200, TIMEOUT, "the startup probe succeeds")
        for _ in range(2):  # readiness
            self.assertEqual(probe(), 200)
        self.assertEqual([line for line in process.heard if "no effect" in line or "statsd" in line],
                         [])
        envoy = self.envoy()
        self.assertFalse(envoy.is_over("edge"))
        time.sleep(AWAY)
        plane = self.start_plane()
        self.assertEqual(plane.next()["node"], "envoy-ratelimit")

        # Sets of resources, one after another: empty, good, changed, with one removed, and bad.
        self.assertIsNone(self.answer(plane, "1")["error"])
        self.assertFalse(envoy.is_over("edge"))
        self.assertIsNone(self.answer(plane, "2", config("edge", 1), config("other", 1))["error"])
        self.assertFalse(envoy.is_over("edge"))
        self.assertTrue(envoy.is_over("edge"))
        self.answer(plane, "3", config("edge", 3), config("other", 1))
        self.assertFalse(envoy.is_over("edge"))
        self.assertFalse(envoy.is_over("other"))
        self.answer(plane, "4", config("edge", 3))
        self.assertFalse(envoy.is_over("other"))
        bad = self.answer(plane, "5", config("edge", 9, unit="", name="eg/1"), config("", 9))
        self.assertEqual((bad["version"], bad["code"]), ("4", 3))
        for mistake in ('resources[0] "eg/1": descriptors[0].rate_limit.unit: is missing',
                        "resources[1]: domain: is missing"):
            self.assertIn(mistake, bad["error"])
        self.assertTrue(envoy.is_over("edge"))

        # The stream breaks. The control plane stops, and comes back with other certificates.
        plane.tell(end=True)
        again = plane.next()
        self.assertEqual((again["version"], again["nonce"]), ("4", ""))
        plane.stop()
        old = certificate_of(8081)
        self.tls = self.pod.rotate()
        running.wait_until(lambda: certificate_of(8081) != old, TIMEOUT, "the new certificate")
        time.sleep(AWAY)
        self.assertEqual(probe(), 200)
        self.assertTrue(envoy.is_over("edge"), "an open connection continues, and the rules stay")
        plane = self.start_plane()
        self.assertEqual(plane.next()["version"], "4")
        envoy_with_new_authority = self.envoy()
        self.assertTrue(envoy_with_new_authority.is_over("edge"))

        # The largest set. The metrics are where the gateway looks for them.
        began = time.monotonic()
        plane.tell(large={"version": "6", "domains": 5000, "descriptors": 10})
        self.assertIsNone(plane.next(LARGE_SET_TIMEOUT)["error"])
        print(f"5,000 resources with 50,000 descriptors, from sending to acknowledgment: "
              f"{time.monotonic() - began:.2f} s", file=sys.stderr)
        page = running.get("http://127.0.0.1:19001/metrics")
        self.assertIn("\nsluice_xds_resources 5000\n", page)
        self.assertIn('\nratelimit_service_rate_limit_total_hits{domain="edge",key1="user"} ', page)

        # Kubernetes stops the pod while callers are connected.
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT), 0)
        print(f"SIGTERM to exit: {time.monotonic() - began:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
