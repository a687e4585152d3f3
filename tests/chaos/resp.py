"""One connection to a Redis."""

import socket


class RedisError(Exception):
    pass


class Redis:
    def __init__(self, address):
        """`address`: the path of a unix socket, or a port of this machine."""
        if isinstance(address, int):
            self.sock = socket.create_connection(("127.0.0.1", address), timeout=10)
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(10)
            self.sock.connect(str(address))
        self.replies = self.sock.makefile("rb")

    def __call__(self, *words):
        """Sends a command. Returns the reply as int, str, list or None. If the reply is an error,
        raises RedisError."""
        words = [word.encode() if isinstance(word, str) else b"%d" % word for word in words]
        self.sock.sendall(b"*%d\r\n" % len(words) +
                          b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.read()

    def read(self):
        line = self.replies.readline().decode().rstrip()
        if not line:
            raise ConnectionError("Redis has closed the connection")
        kind, rest = line[0], line[1:]
        if kind == "-":
            raise RedisError(rest)
        if kind == ":":
            return int(rest)
        if kind == "$":
            return self.replies.read(int(rest) + 2)[:-2].decode("latin-1") if rest != "-1" else None
        if kind == "*":
            return [self.read() for _ in range(int(rest))]
        return rest

    def close(self):
        self.replies.close()
        self.sock.close()


def ask(address, *words):
    """Sends one command on a separate connection. Returns the reply."""
    redis = Redis(address)
    try:
        return redis(*words)
    finally:
        redis.close()
