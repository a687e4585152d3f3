"""Three sluiced on one store, their rules, and a fourth sluiced that reads the store's counters."""

import contextlib
import http.client
import json
import os
import re
import time

import running

SERVERS = 3
STRICT, LOCAL, PROBES = 100, 5, 20  # users of each endpoint
FIRST_USER = 1000000  # the first user of `sluice bench`
PATIENCE = 60  # seconds; a busy machine is slow

ALGORITHMS = (
    "algorithm: fixed_window, limit: {0}, window: 1d",
    "algorithm: sliding_log, limit: {0}, window: 1d",
    "algorithm: sliding_window, limit: {0}, window: 1d",
    "algorithm: token_bucket, rate: 1/d, burst: {0}",
    "algorithm: leaky_bucket, rate: 1/d, queue: {1}, delay: false",
)


def rules(strict_limit, local_limit):
    """/strict and /local use five algorithms, each for a fifth of the users. No counter refills."""
    text = """domain: chaos
rules:
  - name: probe
    match: {endpoint: /probe}
    per: [user]
    on_store_failure: error
    deny_cache: false
    limits: [{algorithm: fixed_window, limit: 1000000000, window: 1d}]
"""
    for endpoint, users, limit, policy in (("strict", STRICT, strict_limit, "error"),
                                           ("local", LOCAL, local_limit, "local")):
        for number, algorithm in enumerate(ALGORITHMS):
            chosen = [str(FIRST_USER + user) for user in range(number, users, len(ALGORITHMS))]
            text += f"""  - name: {endpoint}-{number}
    match: {{endpoint: /{endpoint}, user: {json.dumps(chosen)}}}
    per: [round, user]
    on_store_failure: {policy}
    limits: [{{{algorithm.format(limit, limit - 1)}}}]
"""
    return text


class Server:
    """One sluiced. After a restart, it has the same addresses."""

    def __init__(self, command, environment):
        self.command, self.environment = command, environment
        self.grpc = self.http = "127.0.0.1:0"
        self.start()

    def start(self):
        self.process, line = running.start(
            [*self.command, "--grpc", self.grpc, "--http", self.http], "ready grpc=",
            env=self.environment)
        self.grpc = line.split("grpc=")[1].split()[0]
        self.http = line.split("http=")[1].split()[0]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask_store(self, users, cost=1, **attributes):
        """Sends one check for each user. Returns the answers that the store decided, by user."""
        checks = [{"domain": "chaos", "cost": cost,
                   "attributes": dict(attributes, user=str(FIRST_USER + user))} for user in users]
        with contextlib.closing(http.client.HTTPConnection(self.http, timeout=10)) as connection:
            connection.request("POST", "/v1/checks", json.dumps({"checks": checks}))
            results = json.loads(connection.getresponse().read())["results"]
        answers = [result.get("response", {}) for result in results]
        return {user: answer for user, answer in zip(users, answers, strict=True)
                if answer.get("source") == "SOURCE_STORE"}

    def wait_for_store(self):
        """Waits until the store has decided every probe. Each node of a Cluster decides some."""
        left = set(range(PROBES))
        deadline = time.monotonic() + PATIENCE
        while left:
            left -= self.ask_store(sorted(left), endpoint="/probe").keys()
            assert time.monotonic() < deadline, f"{self.http} does not decide in the store again"
            time.sleep(0.002)

    def counted(self, round_name):
        """The units that the store counts for the round's users of /strict. If an answer is not
        from the store, returns -1."""
        answers = self.ask_store(range(STRICT), cost=0, endpoint="/strict", round=round_name)
        limits = [answer["limits"][0] for answer in answers.values()]
        return sum(int(limit["limit"]) - int(limit.get("remaining", 0))
                   for limit in limits) if len(limits) == STRICT else -1

    def metrics(self):
        """The values of all metrics, by name with labels."""
        return {name: float(value) for name, value in
                re.findall(r"^(sluice_\S+) (\S+)$", running.get(f"http://{self.http}/metrics"), re.M)}


class Servers(list):
    def __init__(self, command, redis_timeout, environment):
        environment = dict(os.environ, **environment)
        super().__init__(Server([*command, "--redis-timeout", redis_timeout], environment)
                         for _ in range(SERVERS))
        # The auditor is not counted in the fleet. It waits up to 10 s for Redis.
        self.auditor = Server([*command, "--redis-timeout", "10s", "--fleet-share", "0.001"],
                              environment)

    def wait_for_store(self):
        """Waits until all servers decide in the store. Returns the seconds this took."""
        begin = time.monotonic()
        for server in self:
            server.wait_for_store()
        return time.monotonic() - begin
