"""Synopsis, options, examples and exit statuses of commands, from --experimental-dump-help."""

import json
import re
import subprocess

from mdoc import argument, display, prose, table

HEADING = re.compile(r"([A-Za-z][A-Za-z ]*):")
EXAMPLES, STATUSES, ENVIRONMENT = "EXAMPLES", "EXIT STATUS", "ENVIRONMENT"


class Help:
    """The parsed discussion of a command: paragraphs, and sections of indented lines by their headings."""

    def __init__(self, discussion):
        self.paragraphs, self.sections = [], {}
        for block in discussion.strip("\n").split("\n\n"):
            lines = block.split("\n")
            heading = HEADING.fullmatch(lines[0])
            if heading and len(lines) > 1:
                self.sections[heading[1].upper()] = [line[2:] for line in lines[1:]]
            elif block.startswith("Exit status: "):
                self.sections[STATUSES] = self.sentence(block)
            else:
                self.paragraphs.append(" ".join(lines))

    @staticmethod
    def sentence(text):
        """The lines of a section that is a sentence: "Exit status: 0 after a clean stop, 1 if it cannot serve."."""
        statuses = re.findall(r"(\d+) (.+?)(?:, (?=\d)|\.$)", text.removeprefix("Exit status: "))
        return [f"{number}  {meaning}" for number, meaning in statuses]

    def rows(self, section):
        """The lines of a section as pairs of a word and its meaning."""
        return [tuple(re.split(r" {2,}", line.strip(), maxsplit=1)) for line in self.sections[section]]


class Command:
    """One command or verb."""

    def __init__(self, description, parents=()):
        self.words = (*parents, description["commandName"])
        self.name = " ".join(self.words)
        self.abstract = description["abstract"]
        self.help = Help(description.get("discussion", ""))
        ours = [one for one in description.get("arguments", []) if one["shouldDisplay"]]
        self.arguments = [one for one in ours if one["valueName"] not in ("help", "version")]
        verbs = [one for one in description.get("subcommands", []) if one["commandName"] != "help"]
        self.verbs = [Command(one, self.words) for one in verbs]

    @staticmethod
    def of(program):
        """Read the description of a program, which the program prints."""
        answer = subprocess.run([program, "--experimental-dump-help"], check=True, stdout=subprocess.PIPE)
        return Command(json.loads(answer.stdout)["command"])

    def below(self):
        """All verbs of this command, at all levels."""
        return [one for verb in self.verbs for one in [verb, *verb.below()]]

    def own(self, common):
        """The arguments, without those that all verbs have."""
        return [one for one in self.arguments if one not in common]

    def synopsis(self, common):
        return [f".Nm {self.name}"] + [f".{usage(one)}" for one in self.own(common)]

    def section(self, common):
        """The section for this verb in the page of its group."""
        lines = [f".Ss {self.name}", prose(self.abstract)]
        for paragraph in self.help.paragraphs:
            lines += [".Pp", prose(paragraph)]
        options = self.options(common)
        examples = self.examples()
        return lines + options + ([".Pp", "Examples:", *examples] if examples else [])

    def options(self, common):
        return option_list(self.own(common))

    def examples(self):
        lines = self.help.sections.get(EXAMPLES)
        return display(lines) if lines else []

    def statuses(self):
        return table(self.help.rows(STATUSES), style="Li")

    def environment(self):
        return table(self.help.rows(ENVIRONMENT), style="Ev")


def option_list(arguments):
    """Format a list of arguments with their meanings."""
    lines = [line for one in arguments for line in (f".It {tag(one)}", prose(meaning(one)))]
    return [".Bl -tag -width Ds", *lines, ".El"] if arguments else []


def names(one):
    """The names of an option, short ones first. The macro Fl adds the first dash."""
    given = sorted(one.get("names", []), key=lambda name: len(name["name"]))
    return [("" if name["kind"] == "short" else "-") + name["name"] for name in given]


def value(one):
    """The placeholder for the value of an argument."""
    # One positional argument of the parser can represent two consecutive ones. Its value name is then of the form `a> <b`.
    words = [argument(word) for word in one["valueName"].split("> <")]
    text = " ".join(f"Ar {word}" for word in words[-1:])
    if one["isRepeating"] and len(words) == 1:
        text += " ..."
    return "".join(f"Oo Ar {word} Oc " for word in words[:-1]) + text


def usage(one):
    """Format an argument for a synopsis."""
    if one["kind"] == "positional":
        if one["parsingStrategy"] == "postTerminator":
            return "Fl - " + value(one)
        text = value(one)
        optional = one["isOptional"] and "> <" not in one["valueName"]
        return f"Op {text}" if optional else text
    name = "Fl " + names(one)[-1].replace("-", "\\-")
    text = name if one["kind"] == "flag" else f"{name} {value(one)}"
    return f"Op {text}" if one["isOptional"] else text


def tag(one):
    """Format an argument for a list of arguments."""
    if one["kind"] == "positional":
        return value(one)
    shown = " , ".join("Fl " + name.replace("-", "\\-") for name in names(one))
    return shown if one["kind"] == "flag" else f"{shown} {value(one)}"


def meaning(one):
    text = " ".join(part for part in (one.get("abstract"), one.get("discussion")) if part)
    default = one.get("defaultValue")
    return f"{text} Default: {default}." if default else text
