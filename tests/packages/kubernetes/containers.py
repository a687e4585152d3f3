"""Writes shell scripts that run the containers of a manifest's pod as processes, with the
containers' commands, environments and users. In all files, the paths of mounts become paths in
FOLDER, /usr/bin becomes PROGRAMS, and the addresses become local ones.

Usage: containers.py OBJECTS.yaml FOLDER PROGRAMS REDIS-PORT GRPC-PORT HTTP-PORT
Writes into FOLDER:
  VOLUME/     for each volume that is a ConfigMap: the ConfigMap's files
  NAME        for each container: a script that runs it
  NAME-probe  for each container with a liveness probe: a script that runs the probe
  group       the pod's fsGroup
"""

import pathlib
import shlex
import sys

import yaml

MANIFEST, FOLDER, PROGRAMS, REDIS, GRPC, HTTP = sys.argv[1:]
OBJECTS = list(yaml.safe_load_all(pathlib.Path(MANIFEST).read_text("utf-8")))


def object_of(kind, name=None):
    return next((it for it in OBJECTS
                 if it["kind"] == kind and name in (None, it["metadata"]["name"])), None)


POD = object_of("Deployment")["spec"]["template"]["spec"]
ROOTS = {f"{mount['mountPath']}": f"{FOLDER}/{mount['name']}"
         for container in POD.get("initContainers", []) + POD["containers"]
         for mount in container["volumeMounts"]}


def ours(text):
    for path, here in ROOTS.items():
        text = text.replace(path, here)
    return (text.replace("/usr/bin", PROGRAMS).replace("redis:6379", f"127.0.0.1:{REDIS}")
            .replace("0.0.0.0:9102", f"127.0.0.1:{HTTP}"))


def write(name, text):
    path = pathlib.Path(FOLDER, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ours(text), "utf-8")


def script(container, command):
    user = POD["securityContext"] | container["securityContext"]
    values = {"SLUICE_GRPC": f"127.0.0.1:{GRPC}", "SLUICE_ADDR": f"127.0.0.1:{GRPC}",
              "SLUICE_HTTP": f"127.0.0.1:{HTTP}"}
    if command[0].endswith("/sluice"):
        values = {"SLUICE_ADDR": values["SLUICE_ADDR"]}
    values |= {it["name"]: it["value"] for it in container["env"]}
    become = ["setpriv", "--reuid", user["runAsUser"], "--regid", user["runAsGroup"],
              "--groups", POD["securityContext"]["fsGroup"], "--no-new-privs",
              "--bounding-set", "-all", "env", "-i"]
    words = [*become, *(f"{name}={value}" for name, value in values.items()), *command]
    return "exec " + shlex.join(map(str, words)) + ' "$@"\n'


def main():
    for volume in POD["volumes"]:
        config = object_of("ConfigMap", volume.get("configMap", {}).get("name", ""))
        for name, text in config["data"].items() if config else ():
            write(f"{volume['name']}/{name}", text)
    for container in POD.get("initContainers", []) + POD["containers"]:
        # If the manifest sets SLUICE_CONFIG, that settings file names the folder of the rules.
        # Otherwise the image's own settings would apply, but they do not exist here.
        configured = any(it["name"] == "SLUICE_CONFIG" for it in container["env"])
        rules = [] if configured else ["--rules", "/etc/sluice/rules"]
        write(container["name"], script(container, container.get(
            "command", ["/usr/bin/sluiced", *rules])))
        if "livenessProbe" in container:
            write(f"{container['name']}-probe",
                  script(container, container["livenessProbe"]["exec"]["command"]))
    write("group", str(POD["securityContext"]["fsGroup"]))


if __name__ == "__main__":
    main()
