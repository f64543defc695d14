"""Text as mdoc(7) wants it: what every page is made with."""

import re

# What roff or a terminal would read as something else than the character that is meant.
CHARACTERS = {"\\": "\\e", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", "-": "\\-"}
# What is set in bold within a text: options, and what stands between grave accents.
MARKED = re.compile(r"(?<![\w-])(--?[A-Za-z][A-Za-z-]*)|`([^`]+)`")
SENTENCE_END = re.compile(r"(?<=\S[.?!]) (?=[^a-z])|(?<=[.?!]\)) (?=[^a-z])")


def literal(text):
    """Text whose every character is meant: commands, names, values."""
    return "".join(
        CHARACTERS.get(character, character) if ord(character) < 128 else f"\\[u{ord(character):04X}]"
        for character in text
    )


def prose(text):
    """A paragraph for people, each sentence in a line of its own: options and what is quoted as code are bold."""
    return "\n".join(guarded(sentence(one)) for one in SENTENCE_END.split(text))


def sentence(text):
    shown, end = "", 0
    for match in MARKED.finditer(text):
        shown += plain(text[end : match.start()]) + f"\\fB{literal(match[1] or match[2])}\\fP"
        end = match.end()
    return shown + plain(text[end:])


def plain(text):
    """Text in which a hyphen is a hyphen."""
    return "-".join(literal(part) for part in text.split("-"))


def guarded(line):
    """A line that roff does not take for a request."""
    return "\\&" + line if line.startswith((".", "\\(aq")) else line


def argument(text):
    """One argument of a macro: what looks like a macro or a delimiter to mdoc does not count as one."""
    text = literal(text).replace('"', "\\(dq")
    if " " in text:
        text = f'"{text}"'
    alone = re.fullmatch(r"[A-Z][a-z]|[.,:;()\[\]?!|]", text)
    return "\\&" + text if alone else text


def display(lines):
    """Lines that stay as they are."""
    shown = [guarded(literal(line)) for line in lines]
    return [".Bd -literal -offset indent", *shown, ".Ed"]


def table(rows, style="Ic"):
    """A list of words with what each means."""
    lines = [f'.Bl -tag -width "{max((word for word, _ in rows), key=len).replace(chr(34), "")}"']
    for word, meaning in rows:
        lines += [f".It {style} {' '.join(argument(part) for part in word.split(' '))}", prose(meaning)]
    return lines + [".El"]
