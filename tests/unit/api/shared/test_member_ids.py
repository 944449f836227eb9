"""Member ids begin as their member is called, and no two are alike."""

import re

from api.shared.member_ids import new_member_id

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def test_member_id_is_the_client_id_and_a_uuid() -> None:
    assert re.fullmatch(f"billing-{UUID}", new_member_id("billing", None))
    assert new_member_id("billing", None) != new_member_id("billing", None)


def test_member_id_of_a_static_member_begins_with_its_instance_id() -> None:
    assert re.fullmatch(f"billing-7-{UUID}", new_member_id("billing", "billing-7"))
