"""YAML as holdfast reads it: plain data only, each value written where it stands."""

from __future__ import annotations

from typing import Any

import yaml

from holdfast.errors import reason, shown

MERGE = "tag:yaml.org,2002:merge"


class NotYaml(ValueError):
    """A text that is not read; the message is one short line that says why."""


def read_yaml(text: str) -> Any:
    """Plain data of a YAML text; raises `NotYaml` for everything that cannot be read.

    Aliases are refused: a few lines of them stand for more values than any machine can hold, and no recipe needs them.
    So is a key that stands twice in one block, of which YAML would keep the last without a word.

    Args:
        text: may be a stranger's.
    """
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise NotYaml("nested too deep") from error
    except (yaml.YAMLError, ValueError) as error:  # the latter: impossible numbers and dates
        raise NotYaml(reason(error, 300)) from error


class _Loader(yaml.SafeLoader):
    """The safe loader, less aliases and doubled keys."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise NotYaml(f"line {line} repeats a value through an alias (*name); write the value out")
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Called for every block, to bring in what `<<` merges; a key may stand there and here, but not here twice."""
        own = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE]
        super().flatten_mapping(node)
        seen = set()
        for key in own:
            value = self.construct_object(key)
            if value in seen:
                raise NotYaml(
                    f"line {key.start_mark.line + 1} gives {shown(key.value)} a second time; keep one of them"
                )
            seen.add(value)
