"""Errors that would end a client are answered by others, after which it looks the coordinator up again."""

import pytest

from api.kafka.apis import ApiKey
from api.kafka.errors import error_code
from coordinator_core.protocol.errors import CoordinatorNotAvailable, NotCoordinator


@pytest.mark.parametrize("key", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH])
def test_clients_look_for_another_coordinator_where_this_one_cannot_serve(key: ApiKey) -> None:
    assert error_code(key, CoordinatorNotAvailable("the database did not answer")) == NotCoordinator.kafka_code
