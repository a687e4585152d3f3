"""Redis alone, driven by redis-benchmark with what sluiced sends it for one check: the floor under
everything that is decided there.

The words are those Redis heard from a sluiced. redis-benchmark cannot send the one that holds
binary numbers, for it ends arguments at a NUL: the script it calls begins with it as a constant.
"""

import ast
import contextlib
import csv
import re
import subprocess


class RawCall:
    """The call of the script for one check; its counter's key has `user` where the user stands."""

    def __init__(self, script, words, user):
        """`words`: those of the EVALSHA: name, SHA-1, number of keys, keys, arguments."""
        last_key = 3 + int(words[2])
        self.keys = [key.replace(user, b"__rand_int__") for key in words[3:last_key]]
        arguments = ", ".join(map(lua_literal, words[last_key:]))
        self.script = f"local ARGV = {{ {arguments} }}\n".encode() + script

    def run(self, redis, users, calls, clients, pipeline):
        """What redis-benchmark says of so many calls for random ones of `users` users."""
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
    """The call that Redis hears while `check` starts a sluiced and has it check `user`."""
    with monitor(redis) as heard:
        check()
        script = next(words for words in heard if words[:2] == [b"SCRIPT", b"LOAD"])[2]
        words = next(words for words in heard if words[0] == b"EVALSHA")
    return RawCall(script, words, user.encode())


@contextlib.contextmanager
def monitor(redis):
    """The commands that Redis gets from now on, each a list of its words."""
    with subprocess.Popen(["redis-cli", "-p", str(redis.port), "MONITOR"], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()  # OK
            yield (words_of(line) for line in process.stdout)
        finally:
            process.kill()


def words_of(line):
    """Redis quotes words as C does, and so does Python."""
    return [ast.literal_eval("b" + word) for word in re.findall(r'"(?:[^"\\]|\\.)*"', line)]


def lua_literal(word):
    return '"' + "".join(f"\\{byte:03}" for byte in word) + '"'
