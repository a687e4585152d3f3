"""A Redis whose replies the attack chooses. Its usual replies let a server log in."""

import contextlib
import socketserver


def serve_with(answer):
    """Returns a value for the argument `redis` of Server: a function that serves a listener.
    answer(words) returns the reply to a command, or None for the usual reply.
    """
    class Connection(socketserver.StreamRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError, ValueError):
                while count := int(self.rfile.readline()[1:] or 0):
                    words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2]
                             for _ in range(count)]
                    usual = b"*1\r\n:1\r\n" if words[:2] == [b"SCRIPT", b"EXISTS"] else b"+OK\r\n"
                    self.wfile.write(answer(words) or usual)

    def serve(listener):
        with socketserver.ThreadingTCPServer(("", 0), Connection, bind_and_activate=False) as server:
            server.daemon_threads = True
            server.socket.close()
            server.socket = listener
            server.serve_forever()

    return serve
