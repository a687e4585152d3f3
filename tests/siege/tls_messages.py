"""Messages of TLS 1.3 that only a malicious client sends after its handshake: tickets, floods of key
updates, plaintext. Also a client that asks for small records (max_fragment_length).
"""

import hashlib
import hmac
import itertools
import json
import re
import ssl
import struct
import subprocess
import tempfile

from attacker import receive_until_end, send
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SERVER = {"tls": True}
HANDSHAKE, DATA = 22, 23
KEY_UPDATE = bytes((24, 0, 0, 1, 0))
TICKET = bytes((4, 0, 240, 0)) + bytes(9000)  # the first 9 KB of a ticket of 60 KB
AT_ONCE = 3  # seconds


class Client:
    """A connection after its handshake. The client makes its records itself (RFC 8446)."""

    def __init__(self, attacker):
        self.socket = attacker.connect(attacker.http, patience=AT_ONCE)
        with tempfile.NamedTemporaryFile() as secrets:
            context = ssl.create_default_context(cafile=attacker.server.folder / "ca.pem")
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.keylog_filename = secrets.name
            cipher = self.shake_hands(context)
            secret = re.search(rb"^CLIENT_TRAFFIC_SECRET_0 \S+ (\S+)", secrets.read(), re.M)[1]
        self.hash, self.key_size = {"TLS_AES_256_GCM_SHA384": (hashlib.sha384, 32),
                                    "TLS_AES_128_GCM_SHA256": (hashlib.sha256, 16)}[cipher]
        self.use(bytes.fromhex(secret.decode()))

    def shake_hands(self, context):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(outgoing.read())
                incoming.write(self.socket.recv(65536))
        self.socket.sendall(outgoing.read())
        return session.cipher()[0]

    def use(self, secret):
        self.secret, self.numbers = secret, itertools.count()
        self.aead = AESGCM(self.expand(b"key", self.key_size))
        self.iv = int.from_bytes(self.expand(b"iv", 12), "big")

    def expand(self, label, size):
        info = struct.pack(">HB", size, 6 + len(label)) + b"tls13 " + label + b"\x00\x01"
        return hmac.digest(self.secret, info, self.hash)[:size]

    def record(self, kind, content):
        head = struct.pack(">BHH", DATA, 0x0303, len(content) + 17)
        nonce = (self.iv ^ next(self.numbers)).to_bytes(12, "big")
        return head + self.aead.encrypt(nonce, content + bytes((kind,)), head)

    def key_update(self):
        record = self.record(HANDSHAKE, KEY_UPDATE)
        self.use(self.expand(b"traffic upd", self.hash().digest_size))
        return record


def longest_record(attacker, version):
    """The size of the longest record in an answer of several KB. The client requests records of at
    most 512 bytes.
    """
    body = json.dumps({"checks": 10 * [{"domain": "rude", "requestId": "x" * 200}]}).encode()
    request = (b"POST /v1/checks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n"
               b"Authorization: Bearer " + attacker.token.encode() + b"\r\n\r\n") % len(body) + body
    shown = subprocess.run(
        ["openssl", "s_client", "-connect", attacker.http, "-maxfraglen", "512", version, "-msg",
         "-ign_eof"], input=request, capture_output=True, timeout=20, check=False).stdout
    sizes = re.findall(rb"<<< [^\n]*RecordHeader[^\n]*\n +17 03 03 (\S\S) (\S\S)", shown)
    longest = max(int(high + low, 16) for high, low in sizes)
    assert longest > 512, "no answer"
    return longest


def attack(attacker):
    faults = [f"{version}: a record of {size} bytes, for a client that requests at most 512"
              for version in ("-tls1_3", "-tls1_2")
              if (size := longest_record(attacker, version)) > 512 + 64]
    while not attacker.over():
        for name, count, records in (
                ("a ticket", 1, lambda it: it.record(HANDSHAKE, TICKET)),
                ("key updates", 600, Client.key_update),
                ("plaintext", 1, lambda _: struct.pack(">BHH", DATA, 0x0303, 4) + b"GET ")):
            client = Client(attacker)
            send(client.socket, b"".join(records(client) for _ in range(count)))
            if receive_until_end(client.socket) is None:
                return [*faults, f"{name} from a client: the connection stays open"]
    return faults
