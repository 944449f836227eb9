"""The ids of topics, by which newer Kafka clients name them."""

from collections.abc import Iterable, Mapping
from uuid import NAMESPACE_OID, UUID, uuid5


def topic_id_of(topic: str) -> UUID:
    """Return the id of a topic, which depends on nothing but its name."""
    return uuid5(NAMESPACE_OID, topic)


class TopicIds:
    """The topics with metadata by their ids: each request of a consumer for records needs them."""

    def __init__(self) -> None:
        self._topics: Iterable[str] = ()
        self._ids: dict[str, UUID] = {}
        self._names: Mapping[UUID, str] = {}

    def names(self, topics: Iterable[str]) -> Mapping[UUID, str]:
        """Return the names of these topics by id; it takes time only if they are others than in the last call."""
        if topics is not self._topics:
            self._ids = {topic: self._ids.get(topic) or topic_id_of(topic) for topic in topics}
            self._names = {topic_id: topic for topic, topic_id in self._ids.items()}
            self._topics = topics
        return self._names
