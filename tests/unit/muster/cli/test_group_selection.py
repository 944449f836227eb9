"""What is done to several groups, one after the other."""

import pytest

from muster.cli.group_selection import Outcome, for_each
from muster.errors import UserError


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), UserError("No node answers.")], ids=["Ctrl-C", "no node"])
def test_command_that_ends_in_the_middle_says_how_far_it_came(
    stop: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(group_id: str) -> Outcome:
        if group_id == "three":
            raise stop
        return Outcome(group_id, "deleted")

    with pytest.raises(type(stop)):
        for_each(["one", "two", "three", "four"], act)
    assert capsys.readouterr().err.startswith("muster: Stopped after 2 of 4 groups; muster changes list ")


def test_command_that_ends_before_the_first_group_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def act(group_id: str) -> Outcome:
        raise UserError(group_id)

    with pytest.raises(UserError):
        for_each(["one", "two"], act)
    assert capsys.readouterr().err == ""
