"""In a checkout, generates the API's messages with protoc before the package is built. Archives
already have these messages."""

import pathlib
import shutil
import subprocess
import tempfile

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE / "../../proto"
NAME = "sluice/v1/rate_limiter"

if (PROTOS / f"{NAME}.proto").exists():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"--proto_path={PROTOS}", f"--python_out={folder}",
                        f"--pyi_out={folder}", f"{NAME}.proto"], check=True)
        for generated in pathlib.Path(folder, NAME).parent.iterdir():
            shutil.copy(generated, HERE / "sluice_client")

setup()
