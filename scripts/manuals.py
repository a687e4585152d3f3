#!/usr/bin/python3
"""Makes man pages and bash completion from the programs' own `--help`.

Usage: manuals.py SLUICE SLUICED DIRECTORY

Writes sluice.1, sluiced.8 (man pages), sluice and sluiced (completion) into DIRECTORY.
"""

import pathlib
import re
import subprocess
import sys

DESCRIPTION_COLUMN = 30  # of the tool's help


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def entries(lines):
    """Returns (term, description) of each entry in a section of the tool's help."""
    found = []
    for line in lines:
        if re.match(r"  \S", line):
            term, _, rest = line[2:].partition("  ")
            if len(term) < DESCRIPTION_COLUMN - 2 or not rest:
                found.append([term, rest.strip()])
            continue
        if found and line.strip():
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return [tuple(entry) for entry in found]


class ToolHelp:
    """The parts of the tool's help, which CLI11 prints."""

    def __init__(self, text):
        self.description, _, rest = text.partition("\nUsage: ")
        self.usage, _, rest = rest.partition("\n")
        self.sections = {}
        footer = []
        name = None
        for line in rest.splitlines():
            if re.fullmatch(r"(Positionals|Options|Subcommands):", line):
                name = line[:-1]
                self.sections[name] = []
            elif line and not line.startswith(" "):
                name = None
                footer.append(line)
            elif name:
                self.sections[name].append(line)
        self.footer = "\n".join(footer)

    def entries(self, section):
        return entries(self.sections.get(section, []))


class ServerHelp:
    """The parts of sluiced's help, which has at least two lines per setting."""

    def __init__(self, text):
        self.description, _, rest = text.partition("\n\n")
        pairs = re.findall(r"(?m)^  (\S.*)((?:\n      .*)*)", rest)
        self.footer = text.rpartition("\n\n")[2].strip()
        self.settings = [(term, " ".join(below.split())) for term, below in pairs]


def page(name, section, version, description, body):
    title = name.upper()
    return (
        f'.TH {title} {section} "" "{version}"\n.SH NAME\n{name} \\- {escape(description)}\n{body}'
        ".SH SEE ALSO\n.BR sluice (1),\n.BR sluiced (8)\n"
    )


def listed(pairs):
    return "".join(f".TP\n.B {escape(term)}\n{escape(text) or chr(92) + '&'}\n" for term, text in pairs)


def tool_page(version, top, commands):
    body = f".SH SYNOPSIS\n{escape('sluice COMMAND [OPTIONS] ...')}\n.SH COMMANDS\n"
    for help_text in commands.values():
        body += f".SS {escape(help_text.usage)}\n{escape(help_text.description)}\n"
        body += listed(help_text.entries("Positionals") + help_text.entries("Options"))
        body += f".PP\n.nf\n{escape(help_text.footer)}\n.fi\n" if help_text.footer else ""
    return page("sluice", 1, version, top.description.strip(), body)


def server_page(version, server):
    name, _, description = server.description.partition(": ")
    summary, _, more = description.partition(". ")
    body = f".SH SYNOPSIS\n{escape(name + ' [OPTIONS]')}\n.SH OPTIONS\n{escape(more)}\n"
    body += f"{listed(server.settings)}.PP\n{escape(server.footer)}\n"
    return page("sluiced", 8, version, summary, body)


def flags_of(pairs):
    return [flag for term, _ in pairs for flag in re.findall(r"(?:^|,)(--[a-z-]+)", term)]


def tool_completion(commands):
    cases = ""
    for name, help_text in commands.items():
        cases += f"    {name}) words='{' '.join(flags_of(help_text.entries('Options')))}' ;;\n"
    terms = [term for text in commands.values() for term, _ in text.entries("Options")]
    choices = dict(re.findall(r"(--[a-z-]+) \S+:\{(.*?)\}", "\n".join(terms)))
    files = sorted({flag for t in terms for flag in re.findall(r"(--[a-z-]+) FILE", t)})
    values = "".join(
        f"    {flag}) COMPREPLY=($(compgen -W '{words.replace(',', ' ')}' -- \"$word\")); return ;;\n"
        for flag, words in sorted(choices.items()))
    return f"""# bash completion of sluice, made from its --help
_sluice() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words
  COMPREPLY=()
  case $before in
{values}    {'|'.join(files)}) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case ${{COMP_WORDS[1]}} in
{cases}    *) words='{' '.join(commands)} --help --version' ;;
  esac
  ((COMP_CWORD == 1)) && words='{' '.join(commands)} --help --version'
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ ${{COMP_WORDS[1]}} == validate && $word != -* ]] && COMPREPLY=($(compgen -d -- "$word"))
}}
complete -F _sluice sluice
"""


def server_completion(server):
    flags = flags_of(server.settings)
    paths = [term.split()[0] for term, _ in server.settings if re.match(r"--\S+ (FILE|DIR)", term)]
    return f"""# bash completion of sluiced, made from its --help
_sluiced() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  case $before in
    {'|'.join(paths)}) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  COMPREPLY=($(compgen -W '{' '.join(flags)}' -- "$word"))
}}
complete -F _sluiced sluiced
"""


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tool, server, directory = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    directory.mkdir(parents=True, exist_ok=True)
    top = ToolHelp(run(tool, "--help"))
    commands = {name: ToolHelp(run(tool, name, "--help")) for name, _ in top.entries("Subcommands")}
    settings = ServerHelp(run(server, "--help"))
    version = run(server, "--version").strip()
    for name, text in (("sluice.1", tool_page(version, top, commands)),
                       ("sluiced.8", server_page(version, settings)),
                       ("sluice", tool_completion(commands)),
                       ("sluiced", server_completion(settings))):
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
