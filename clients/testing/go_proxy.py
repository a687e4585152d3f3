#!/usr/bin/python3
"""Makes a module proxy, for GOPROXY=file://FOLDER, from the Go libraries of Debian's packages.

Usage: go_proxy.py FOLDER
"""

import pathlib
import sys
import zipfile

SOURCES = pathlib.Path("/usr/share/gocode/src")
# The modules in Debian's packages with their versions, and the modules that each of them needs.
MODULES = {
    "google.golang.org/grpc": "v1.33.3",
    "google.golang.org/protobuf": "v1.28.1",
    "google.golang.org/genproto": "v0.0.0-20200413115906-b5235f65be36",
    "github.com/golang/protobuf": "v1.5.2",
    "golang.org/x/net": "v0.7.0",
    "golang.org/x/sys": "v0.3.0",
    "golang.org/x/text": "v0.7.0",
}
NEEDED = {
    "google.golang.org/grpc": ["github.com/golang/protobuf", "google.golang.org/genproto",
                               "google.golang.org/protobuf", "golang.org/x/net", "golang.org/x/sys"],
    "google.golang.org/genproto": ["google.golang.org/protobuf", "github.com/golang/protobuf"],
    "github.com/golang/protobuf": ["google.golang.org/protobuf"],
    "golang.org/x/net": ["golang.org/x/sys", "golang.org/x/text"],
}


def files_of(module):
    for path in sorted((SOURCES / module).rglob("*.*")):
        if path.suffix in (".go", ".s") and not path.name.endswith("_test.go") and path.is_file():
            yield path


def main():
    for module, version in MODULES.items():
        folder = pathlib.Path(sys.argv[1], module, "@v")
        folder.mkdir(parents=True, exist_ok=True)
        needed = "".join(f"\t{it} {MODULES[it]}\n" for it in NEEDED.get(module, []))
        manifest = f"module {module}\n\ngo 1.19\n" + (f"\nrequire (\n{needed})\n" if needed else "")
        (folder / "list").write_text(version + "\n")
        (folder / f"{version}.info").write_text(f'{{"Version": "{version}"}}\n')
        (folder / f"{version}.mod").write_text(manifest)
        with zipfile.ZipFile(folder / f"{version}.zip", "w") as archive:
            root = f"{module}@{version}"
            archive.writestr(f"{root}/go.mod", manifest)
            for path in files_of(module):
                archive.write(path, f"{root}/{path.relative_to(SOURCES / module)}")


if __name__ == "__main__":
    main()
