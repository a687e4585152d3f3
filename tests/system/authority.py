"""Certificates for tests."""

import os
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority. `issue` writes NAME.pem and NAME.key to its folder."""

    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.ca = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.key, "-out", self.ca, "-subj", f"/CN={name}", "-days", "30")

    def issue(self, name, alternative_name, days=30):
        request, extensions = self.folder / "request", self.folder / "extensions"
        made = self.folder / f"{name}.new"
        extensions.write_text(f"subjectAltName={alternative_name}\n", encoding="utf-8")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                made.with_suffix(".newkey"), "-out", request, "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key,
                "-CAcreateserial", "-extfile", extensions, "-days", str(days), "-out", made)
        os.replace(made.with_suffix(".newkey"), self.folder / f"{name}.key")
        os.replace(made, self.folder / f"{name}.pem")
