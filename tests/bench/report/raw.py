"""Redis alone: redis-benchmark makes the same script call as sluiced for one check.

The result shows what a check costs Redis if it is alone in its call. The arguments are recorded
from a sluiced. redis-benchmark ends arguments at a NUL, so it cannot send the binary argument.
Instead, the script begins with the arguments as constants.
"""

import ast
import contextlib
import csv
import re
import subprocess


class RawCall:
    """The script call for one check. redis-benchmark replaces `user` in the key by random users."""

    def __init__(self, script, words, user):
        """`words`: the words of the EVALSHA: name, SHA-1, number of keys, keys, arguments."""
        last_key = 3 + int(words[2])
        self.keys = [key.replace(user, b"__rand_int__") for key in words[3:last_key]]
        arguments = ", ".join(map(lua_literal, words[last_key:]))
        self.script = f"local ARGV = {{ {arguments} }}\n".encode() + script

    def run(self, redis, users, calls, clients, pipeline):
        """redis-benchmark's result for `calls` calls, each for a random user of `users`."""
        sha1 = subprocess.run(
            ["redis-cli", "-p", str(redis.port), "-x", "SCRIPT", "LOAD"], input=self.script,
            capture_output=True, check=True, timeout=10).stdout.strip()
        output = subprocess.run(
            ["redis-benchmark", "-p", str(redis.port), "-c", str(clients), "-P", str(pipeline),
             "-n", str(calls), "-r", str(users), "--csv", "EVALSHA", sha1, str(len(self.keys)),
             *self.keys],
            stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True, timeout=120)
        if output.stderr:
            raise RuntimeError(f"redis-benchmark: {output.stderr}")
        return next(csv.DictReader(output.stdout.splitlines()))


def hear(redis, check, user):
    """The call that Redis receives while `check` starts a sluiced and checks `user`."""
    with monitor(redis) as heard:
        check()
        script = next(words for words in heard if words[:2] == [b"SCRIPT", b"LOAD"])[2]
        words = next(words for words in heard if words[0] == b"EVALSHA")
    return RawCall(script, words, user.encode())


@contextlib.contextmanager
def monitor(redis):
    """The commands that Redis receives from now on, each as a list of words."""
    with subprocess.Popen(["redis-cli", "-p", str(redis.port), "MONITOR"], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()  # OK
            yield (words_of(line) for line in process.stdout)
        finally:
            process.kill()


def words_of(line):
    """The words of a command. Redis quotes them as C and Python do."""
    return [ast.literal_eval("b" + word) for word in re.findall(r'"(?:[^"\\]|\\.)*"', line)]


def lua_literal(word):
    return '"' + "".join(f"\\{byte:03}" for byte in word) + '"'
