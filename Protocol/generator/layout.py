"""Swift source in the layout of swift-format."""

import textwrap

WIDTH = 120
INDENT = "    "


def comment(text, indent):
    """A documentation comment that will be indented by `indent`; no lines if there is no text."""
    if not text:
        return []
    return ["/// " + line for line in textwrap.wrap(text, WIDTH - 4 - indent, break_on_hyphens=False)]


def brace(head, body, one_line=False):
    """A declaration with a body; with `one_line` on one line if it fits."""
    head = head if isinstance(head, list) else [head]
    opening = head[:-1] + [head[-1] if head[-1].endswith("{") else head[-1] + " {"]
    if not body:
        return opening[:-1] + [opening[-1] + "}"]
    if one_line and len(opening) == 1 and len(body) == 1:
        line = f"{opening[0]} {body[0]} }}"
        if len(line) <= WIDTH - 12:
            return [line]
    return opening + [INDENT + line if line else "" for line in body] + ["}"]


def fill(opening, parts, closing_bracket, indent, closing=""):
    """A list in brackets: on one line if it fits, otherwise with as many elements per line as fit.

    - indent: the indentation that the list will have.
    """
    line = opening + ", ".join(parts) + closing_bracket + closing
    if len(line) + indent <= WIDTH:
        return [line]
    lines, current = [], ""
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        piece = part + ("," if not is_last or closing_bracket == "]" else "")
        if current and indent + len(INDENT) + len(current) + 1 + len(piece) > WIDTH:
            lines.append(INDENT + current)
            current = piece
        else:
            current = f"{current} {piece}" if current else piece
    return [opening, *lines, INDENT + current, closing_bracket + closing]


def statement(target, expression, indent):
    """An assignment, broken after the equals sign if it is too long."""
    line = f"{target} = {expression}"
    if len(line) + indent <= WIDTH:
        return [line]
    return [f"{target} =", INDENT + expression]


def joined(parts):
    """Groups of lines, separated by blank lines."""
    lines = []
    for part in parts:
        if part:
            lines += ([""] if lines else []) + part
    return lines
