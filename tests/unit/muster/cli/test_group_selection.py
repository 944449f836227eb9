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


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (UserError("No node answers."), ""),
        (KeyboardInterrupt(), "muster: Stopped after 0 of 2 groups; muster changes list shows what was changed.\n"),
    ],
    ids=["no node", "Ctrl-C"],
)
def test_only_an_interrupted_first_group_may_have_been_changed(
    stop: BaseException, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(group_id: str) -> Outcome:
        raise stop

    with pytest.raises(type(stop)):
        for_each(["one", "two"], act)
    assert capsys.readouterr().err == said
