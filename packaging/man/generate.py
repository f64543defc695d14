#!/usr/bin/env python3
"""Generate the manual pages from pages/, the help of the programs and the OpenRPC document.

    generate.py LARDER LARDERD OUTDIR

A page in pages/ is mdoc(7). A line @WORD ARGUMENTS@ in it is replaced by generated text:

    @names VERB ...@         the names of the page's verbs; each gets a page with that name that refers to this page
    @synopsis COMMAND ...@   commands with their specific options
    @sections VERB ...@      a section for each verb
    @list VERB ...@          the verbs with their purposes
    @options COMMAND@        its options
    @common@                 the options that all verbs accept
    @examples COMMAND@       the examples from its help
    @statuses COMMAND@       its exit statuses
    @environment COMMAND@    the environment variables that it reads
    @methods@, @errors@      the methods and errors of the protocol
    @date@, @version@        can be anywhere in a line

Verbs of larder are written without "larder", and those of two words with a slash: image/get. Each verb must be on exactly one
page.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from commands import Command, option_list  # noqa: E402
from mdoc import argument, prose  # noqa: E402
from protocol import Protocol  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DIRECTIVE = re.compile(r"@([a-z]+)(?: ([^@]+))?@")
# A verb that has only the options that all verbs have.
PLAINEST = "ping"


class Pages:
    """The pages, and the commands and methods that they describe."""

    def __init__(self, larder, larderd):
        self.programs = {program.name: program for program in (Command.of(larder), Command.of(larderd))}
        self.verbs = {"/".join(verb.words[1:]): verb for verb in self.programs["larder"].below()}
        self.shared = self.verbs[PLAINEST].arguments
        self.protocol = Protocol(HERE.parent.parent / "Protocol" / "openrpc.json")
        version = subprocess.run([larder, "--version"], check=True, stdout=subprocess.PIPE, text=True)
        self.constants = {"@version@": version.stdout.strip(), "@date@": day()}
        # The name of the page that describes each verb.
        self.pages = {}

    def page(self, name, text):
        """The page of a template."""
        for constant, value in self.constants.items():
            text = text.replace(constant, value)
        lines = []
        for line in text.split("\n"):
            directive = DIRECTIVE.fullmatch(line)
            lines += self.generated(name, directive[1], (directive[2] or "").split()) if directive else [line]
        return "\n".join(lines)

    def generated(self, page, word, names):
        commands = [self.programs.get(name) or self.verbs[name] for name in names]
        match word:
            case "names":
                return [f".Nm larder-{name} ," for name in names[:-1]] + [f".Nm larder-{names[-1]}"]
            case "synopsis":
                return [line for command in commands for line in command.synopsis(self.shared)]
            case "sections":
                for name in names:
                    if name in self.pages:
                        sys.exit(f"{page}: {name} is also on {self.pages[name]}")
                    self.pages[name] = page
                return [line for command in commands for line in command.section(self.shared)]
            case "list":
                lines = [".Bl -tag -width acknowledge -compact"]
                for command in commands:
                    lines += [f".It Ic {argument(command.words[-1])}", prose(command.abstract)]
                return lines + [".El"]
            case "options":
                return commands[0].options([])
            case "common":
                return option_list(self.shared)
            case "examples":
                return commands[0].examples()
            case "statuses":
                return commands[0].statuses()
            case "environment":
                return commands[0].environment()
            case "methods":
                return self.protocol.sections()
            case "errors":
                return self.protocol.errors()
        sys.exit(f"{page}: unknown directive @{word}@")

    def links(self):
        """The names of further pages, each with the page that it refers to."""
        missing = [name for name, verb in self.verbs.items() if not verb.verbs and name not in self.pages]
        if missing:
            sys.exit(f"no page describes: {', '.join(missing)}")
        names = [(f"larder-{name}.1", page) for name, page in self.pages.items() if "/" not in name]
        return [(name, page) for name, page in names if name != page]


def day():
    """The date of the pages: that of the source if SOURCE_DATE_EPOCH is set, otherwise today."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.now(datetime.timezone.utc)
    date = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else now
    return f"{date:%B} {date.day}, {date.year}"


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    output = pathlib.Path(sys.argv[3])
    output.mkdir(parents=True, exist_ok=True)
    pages = Pages(sys.argv[1], sys.argv[2])
    for template in sorted((HERE / "pages").glob("*.in")):
        name = template.name.removesuffix(".in")
        text = pages.page(name, template.read_text(encoding="utf-8"))
        (output / name).write_text(text, encoding="utf-8")
    for name, page in pages.links():
        (output / name).write_text(f".so man1/{page}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
