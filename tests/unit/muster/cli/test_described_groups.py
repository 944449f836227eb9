"""Each group is printed when it is read, before the next one is."""

from typing import cast

import pytest

from muster.cli.groups import DescribedParts, print_descriptions
from muster.errors import UserError
from muster.node_client import Json, NodeClient

ONLY_MEMBERS = DescribedParts(state=False, members=True, offsets=False)


class StoppingNode:
    """A node that describes one group and is then stopped."""

    def __init__(self) -> None:
        self.described = 0

    def whole(self, path: str, _field: str) -> Json:
        self.described += 1
        if self.described > 1:
            raise UserError("the node does not answer")
        return {"group_id": path.rpartition("/")[2], "members": []}


def test_groups_that_were_read_are_printed_before_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    node = cast(NodeClient, StoppingNode())

    with pytest.raises(UserError, match="does not answer"):
        print_descriptions(node, ["a", "b", "c"], ONLY_MEMBERS, is_verbose=False, is_wide=False, as_json=False)

    assert capsys.readouterr().out == "a has no members.\n"
