"""The commands of README.md (section Install), and the commands, units and settings of contrib/guides.

The checks run them as they are written.
"""

import re
from pathlib import Path

from harness import RESULTS, Failed

HOME = "/home/anna"


def blocks():
    """The shell blocks of both documents, without duplicates. A block is a string of command lines."""
    readme = Path(RESULTS, "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Install\n(.*?)^## ", readme, re.DOTALL | re.MULTILINE)
    if not section:
        raise Failed("README.md has no section Install")
    texts = [section[1], Path(RESULTS, "install.md").read_text(encoding="utf-8")]
    found = [block for text in texts for block in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]
    return list(dict.fromkeys(block.strip() for block in found))


def block(beginning):
    """The block that begins with a text. It fails if the documents have different ones."""
    matches = [one for one in blocks() if one.startswith(beginning)]
    if len(matches) != 1:
        raise Failed(f"README.md and install.md have {len(matches)} different blocks that begin with '{beginning}'")
    return matches[0]


def login(script):
    """A command line that runs a script as Anna, freshly logged in, where she has the sources checked out."""
    return ("runuser", "--login", "anna", "--command", f"cd larder && set -eux\n{script}")


def text(guide):
    return Path(RESULTS, guide).read_text(encoding="utf-8")


def guide_blocks(guide, language="sh"):
    """The blocks of a guide in a language."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", text(guide), re.DOTALL | re.MULTILINE)
    return [block.strip() for block in found]


def guide_block(guide, beginning, language="sh"):
    """The block of a guide that begins with a text."""
    matches = [block for block in guide_blocks(guide, language) if block.startswith(beginning)]
    if len(matches) != 1:
        raise Failed(f"{guide} has {len(matches)} blocks that begin with '{beginning}'")
    return matches[0]


def units(guide):
    """The unit files of a guide, by path. A line with the path precedes each of them."""
    pattern = r"^`(/etc/systemd/system/[^`]+)`[^\n]*\n\n```ini\n(.*?)^```$"
    return dict(re.findall(pattern, text(guide), re.DOTALL | re.MULTILINE))
