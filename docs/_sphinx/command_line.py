"""The directive `command-line`: the help of `torchgraft` and of each of its commands, as they print it."""

import argparse
import os

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from torchgraft.cli import make_parser


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    (subparsers,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return subparsers.choices


class CommandLine(SphinxDirective):
    """A section for the command and one for each subcommand."""

    def run(self) -> list[nodes.Node]:
        os.environ["COLUMNS"] = "90"  # argparse breaks lines there
        parser = make_parser()
        return [
            shown(parser),
            *(nodes.section("", nodes.title("", command.prog), shown(command), ids=[nodes.make_id(command.prog)])
              for command in commands(parser).values()),
        ]  # fmt: skip


def shown(parser: argparse.ArgumentParser) -> nodes.Node:
    """What `--help` prints."""
    text = parser.format_help()
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
