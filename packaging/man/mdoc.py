"""Functions that format text as mdoc(7)."""

import re

# Characters that roff or a terminal would interpret, and their escapes.
CHARACTERS = {"\\": "\\e", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", "-": "\\-"}
# The parts of a text that become bold: options, and text between backticks.
MARKED = re.compile(r"(?<![\w-])(--?[A-Za-z][A-Za-z-]*)|`([^`]+)`")
SENTENCE_END = re.compile(r"(?<=\S[.?!]) (?=[^a-z])|(?<=[.?!]\)) (?=[^a-z])")


def literal(text):
    """Escape text in which every character is literal: commands, names, values."""
    return "".join(
        CHARACTERS.get(character, character) if ord(character) < 128 else f"\\[u{ord(character):04X}]"
        for character in text
    )


def prose(text):
    """Format a paragraph, with each sentence on a separate line. Options and text in backticks become bold."""
    return "\n".join(guarded(sentence(one)) for one in SENTENCE_END.split(text))


def sentence(text):
    shown, end = "", 0
    for match in MARKED.finditer(text):
        shown += plain(text[end : match.start()]) + f"\\fB{literal(match[1] or match[2])}\\fP"
        end = match.end()
    return shown + plain(text[end:])


def plain(text):
    """Escape text in which hyphens stay hyphens."""
    return "-".join(literal(part) for part in text.split("-"))


def guarded(line):
    """Prevent roff from reading a line as a request."""
    return "\\&" + line if line.startswith((".", "\\(aq")) else line


def argument(text):
    """Format one argument of a macro. Text that mdoc would read as a macro or delimiter is escaped."""
    text = literal(text).replace('"', "\\(dq")
    if " " in text:
        text = f'"{text}"'
    alone = re.fullmatch(r"[A-Z][a-z]|[.,:;()\[\]?!|]", text)
    return "\\&" + text if alone else text


def display(lines):
    """Format literal lines."""
    shown = [guarded(literal(line)) for line in lines]
    return [".Bd -literal -offset indent", *shown, ".Ed"]


def table(rows, style="Ic"):
    """Format a list of words with their meanings."""
    lines = [f'.Bl -tag -width "{max((word for word, _ in rows), key=len).replace(chr(34), "")}"']
    for word, meaning in rows:
        lines += [f".It {style} {' '.join(argument(part) for part in word.split(' '))}", prose(meaning)]
    return lines + [".El"]
