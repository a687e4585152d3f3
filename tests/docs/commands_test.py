#!/usr/bin/python3
"""Tests the commands in the documents. This test runs the commands of the pages in RUN_HERE, except
those in ELSEWHERE. It checks that other files run the commands in ELSEWHERE and those of the pages
in FOLLOWED. On all other pages, it does not check the commands of the tool `sluice`.

Usage: commands_test.py BIN_DIR SOURCE_DIR

The commands of a page run in one shell. The server has the rules in config/rules or, for the pages
in WITH_OWN_RULES, the rules of the page. Ports are replaced by free ports, and loads are very
short. The output of a command must begin with the same word as on the page. With the rules of the
page, the whole output must be the same, except for numbers.
"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))
from running import directory, free_port, start  # noqa: E402

BIN, SOURCE = (pathlib.Path(it).resolve() for it in sys.argv[1:3])

RUN_HERE = ("README.md", "README.zh-CN.md", "docs/console.md", "docs/http.md", "docs/operations.md",
            "docs/recipes.md", "docs/settings.md", "docs/tool.md")
# For these pages, the server has the rules of the page, so every answer is predictable.
WITH_OWN_RULES = ("docs/recipes.md",)
# clients/testing/readme.py runs the commands of these pages in a new project.
FOLLOWED = ("clients/cpp/README.md", "clients/go/README.md", "clients/java/README.md", "clients/node/README.md",
            "clients/python/README.md")
PORTS = ("8080", "8081", "16379", "19080", "19081", "19082", "19083")
TO_END = dict.fromkeys(
    ("README.md", "README.zh-CN.md"), "kill %1 %2; redis-cli -p 16379 shutdown nosave")
# If a page shows one of these, the output may begin with either: it depends on the time since the
# previous command.
VERDICTS = ("ALLOWED", "DENIED")

# The start of a command, the file that runs it instead, and the words to find in that file.
ELSEWHERE = (
    ("scripts/run.sh", "tests/packages/readme.sh", "scripts/run.sh --background"),
    ("scripts/test.sh", "tests/packages/readme.sh", "scripts/test.sh ${selected"),
    ("scripts/setup.sh && cmake --preset release && ", "scripts/test.sh", 'cmake --preset "$preset"'),
    ("scripts/setup.sh build", "docker/Dockerfile",
     "scripts/setup.sh build && apt-get install -y --no-install-recommends dpkg-dev file"),
    ("scripts/bench.sh", "tests/bench/report_test.py", "scripts/bench.sh"),
    ("docker build -f docker/Dockerfile ", "tests/packages/image.sh", "--file docker/Dockerfile"),
    ("docker run --rm --read-only ", "tests/packages/image.sh", "mount -o remount,bind,ro"),
    ("kubectl create secret generic sluice-redis ", "docker/kubernetes/central/deployment.yaml",
     "kubectl create secret generic sluice-redis --from-file=password"),
    ("kubectl apply -k docker/kubernetes/", "tests/packages/kubernetes.sh", "kustomization of"),
    ("cmake --preset package -DCMAKE_INSTALL_PREFIX=", "tests/packages/install.sh",
     "cmake --preset package -B build/prefix -DCMAKE_INSTALL_PREFIX="),
    ("cmake --build --preset package ", "tests/packages/debian.sh", "cmake --build --preset package"),
    ("cmake --install ", "tests/packages/install.sh", "cmake --install "),
    ("cmake --preset package && cmake --build --preset package", "tests/packages/debian.sh",
     "cmake --build --preset package"),
    ("apt install ./build/package/", "tests/packages/debian.sh", "apt-get -q install"),
    ("systemctl status sluiced", "tests/packages/debian.sh", "is-enabled sluiced.service"),
    ("useradd --system sluice", "tests/packages/install.sh", "useradd --system sluice"),
    ("systemctl enable --now /opt/sluice/lib/systemd/system/sluiced.service",
     "tests/packages/install.sh", "systemctl enable /opt/sluice/lib/systemd/system/sluiced.service"),
    ("sha256sum --check SHA256SUMS", "tests/packages/release.sh", "sha256sum --check"),
    ("apt install ./sluice_", "tests/packages/release.sh", "apt-get -q install"),
    ("docker load --input ", "scripts/release.sh", "docker load"),
    ("build/release/accuracy/accuracy", "tests/accuracy/CMakeLists.txt", "COMMAND accuracy --short"),
    # No test runs these measurements, but each build without sanitizers builds their programs.
    ("build/release/accuracy/algorithm_cost", "tests/accuracy/CMakeLists.txt",
     "add_executable(algorithm_cost "),
    ("build/release/bench/lone_check", "tests/bench/CMakeLists.txt", "sluice_bench(lone_check "),
    ("build/release/bench/fleet_cost", "tests/bench/CMakeLists.txt", "sluice_bench(fleet_cost "),
    # Clients.
    ("build/release/bin/sluiced --rules clients/testing/rules", "clients/testing/run.py",
     'with_name("rules")'),
    ("pip install ./clients/python", "clients/package.sh", "-m pip -q wheel"),
    ("clients/python/example.py pay", "scripts/test_clients.sh", "clients/python/example.py"),
    ("curl -iN localhost:8000/v1/chat/completions", "clients/testing/gateway.py",
     "POST /v1/chat/completions"),
    ("tests/accuracy/plot.py ", "tests/accuracy/plot.py", "docs/algorithms.svg"),
)


def pages():
    return [*sorted(SOURCE.glob("README*.md")), *sorted((SOURCE / "docs").glob("*.md")),
            *sorted((SOURCE / "clients").glob("*.md")), *sorted((SOURCE / "clients").glob("*/*.md"))]


def commands_of(text):
    """Yields (command, output on the page). Outside of console blocks, the output is None."""
    for language, block in re.findall(r"^```(console|sh)\n(.*?)^```", text, re.M | re.S):
        if language == "sh":
            yield from ((line.split("#")[0].strip(), None) for line in block.splitlines() if line)
            continue
        for command, output in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            yield re.sub(r"\s+#.*", "", command), output.strip()
    for command in re.findall(r"`(sluice (?:validate|explain|reset|rules|reload)\b[^`A-Z…]*)`", text):
        yield command, None


def first_word(output):
    """The first word of an output. A time at the start of the output is skipped."""
    return (re.findall(r"[^\s,]+", re.sub(r"^\d{4}-[\d-]+T[\d:]+Z", "", output)) or [""])[0]


def without_numbers(output):
    """The output with T for each duration and N for other numbers, such as "resets in T"."""
    times = r"\d[\d.]* (?:us|ms|s|min|h|d)\b"
    return re.sub(r"\d+", "N", re.sub(rf"{times}(?: {times})*", "T", output)).strip()


def is_elsewhere(command):
    return any(command.startswith(prefix) for prefix, _, _ in ELSEWHERE)


def quick(command):
    """The command, changed: it runs a load only briefly, or waits until its server is ready."""
    if command.startswith("sluice bench"):
        command = re.sub(r" --(duration|warm-up) \S+", "", command) + " --duration 300ms"
    if command.startswith("sluice console"):  # runs until a signal ends it
        command += (" >page &\nuntil grep -qs token= page; do kill -0 $! || exit; sleep 0.05; done; "
                    "cat page; kill $!; wait $!")
    elif command.endswith("&"):
        address = re.search(r"--grpc (\S+)", command).group(1)
        command += (f"\nuntil sluice health --addr {address} >/dev/null 2>&1; "
                    "do kill -0 $! || exit; sleep 0.05; done")
    return command


class Page:
    """Runs a page's commands in one shell, with a server, in a folder laid out like a checkout."""

    def __init__(self, name):
        self.folder = directory()
        self.text = (SOURCE / name).read_text(encoding="utf-8")
        self.end = TO_END.get(name, "")
        self.rules = SOURCE / "config/rules"
        if name in WITH_OWN_RULES:
            self.rules = self.folder / "rules"
            self.rules.mkdir()
            for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", self.text, re.M | re.S)):
                (self.rules / f"{number}.yaml").write_text(block, encoding="utf-8")
        self.ports = {port: str(free_port()) for port in PORTS}
        (self.folder / "build/release").mkdir(parents=True)
        (self.folder / "build/release/bin").symlink_to(BIN)
        (self.folder / "config").symlink_to(SOURCE / "config")
        path = "/usr/bin:/bin" if "PATH=$PWD/build/release/bin" in self.text else f"{BIN}:/usr/bin:/bin"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
        self.environment = {**clean, "XDG_RUNTIME_DIR": str(self.folder), "PATH": path,
                            "SLUICE_ADDR": f"127.0.0.1:{self.ports['8081']}"}

    def run(self):
        """Yields (command, output on the page, output, exit status) of each command."""
        start([BIN / "sluiced", "--rules", self.rules,
               "--grpc", f"127.0.0.1:{self.ports['8081']}", "--http",
               f"127.0.0.1:{self.ports['8080']}"], "ready grpc=", env=self.environment)
        ours = [it for it in commands_of(self.text) if not is_elsewhere(it[0])]
        script = [f"trap {self.of_this_test(self.end)!r} EXIT"] if self.end else []
        for number, (command, _) in enumerate(ours):
            output = self.folder / f"output-{number}"
            script += [f"exec >{output} 2>&1", self.of_this_test(quick(command)),
                       f"echo $? >{output}.status"]
        subprocess.run(["bash", "-c", "\n".join(script)], cwd=self.folder, env=self.environment,
                       stdin=subprocess.DEVNULL, timeout=120, check=False)
        for number, (command, shown) in enumerate(ours):
            output = self.folder / f"output-{number}"
            status = output.with_name(f"{output.name}.status")
            yield (command, shown, output.read_text("utf-8") if output.exists() else "",
                   int(status.read_text("ascii")) if status.exists() else None)

    def of_this_test(self, command):
        return re.sub(r"\b(?:" + "|".join(PORTS) + r")\b", lambda it: self.ports[it.group()], command)


class CommandsTest(unittest.TestCase):
    def test_commands_print_what_their_page_shows(self):
        for name in RUN_HERE:
            for command, shown, output, status in Page(name).run():
                word = first_word(shown or "")
                with self.subTest(page=name, command=command):
                    shows_an_error = status == 2 and shown and output.strip() == shown
                    self.assertTrue(status in (0, 1) or shows_an_error, output)
                    if shown is not None and name in WITH_OWN_RULES:
                        self.assertEqual(without_numbers(output), without_numbers(shown))
                    elif word in VERDICTS:
                        self.assertIn(first_word(output), VERDICTS, output)
                    elif word:
                        self.assertEqual(first_word(output), word, output)

    def test_commands_of_other_pages_are_listed_with_their_tests(self):
        for page in pages():
            name = page.relative_to(SOURCE).as_posix()
            for command, _ in commands_of(page.read_text(encoding="utf-8")):
                with self.subTest(page=name, command=command):
                    self.assertTrue(name in RUN_HERE or name in FOLLOWED or is_elsewhere(command) or
                                    command.startswith("sluice "), "no list names its test")

    def test_a_script_follows_the_readme_of_each_client(self):
        script = (SOURCE / "scripts/test_clients.sh").read_text(encoding="utf-8")
        for name in FOLLOWED:
            self.assertIn(f"follow {pathlib.Path(name).parent.name} ", script)

    def test_scripts_asked_for_help_print_it_and_do_nothing_else(self):
        """A script finds no program that could set up, build or install anything."""
        programs = directory()
        for name in ("bash", "sed", "dirname"):
            (programs / name).symlink_to(f"/usr/bin/{name}")
        for script in sorted((SOURCE / "scripts").glob("*.sh")):
            for flag in ("--help", "-h"):
                with self.subTest(script=script.name, flag=flag):
                    result = subprocess.run(
                        [script, flag], capture_output=True, text=True, timeout=60, check=False,
                        stdin=subprocess.DEVNULL, env={"PATH": str(programs)})
                    self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
                    self.assertIn(script.stem, result.stdout)

    def test_readmes_say_how_to_stop_their_processes(self):
        for name, command in TO_END.items():
            self.assertIn(command, " ".join((SOURCE / name).read_text("utf-8").split()))

    def test_the_chinese_readme_has_the_commands_of_the_english_one(self):
        english, chinese = (list(commands_of((SOURCE / name).read_text("utf-8")))
                            for name in ("README.md", "README.zh-CN.md"))
        self.assertEqual(chinese, english)

    def test_files_that_run_other_commands_contain_the_listed_words(self):
        for command, file, words in ELSEWHERE:
            with self.subTest(command=command):
                self.assertIn(words, (SOURCE / file).read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
