"""The leader of a partition is the broker with the highest hash, on nodes of every release."""

from zlib import crc32

from api.kafka.brokers import Broker, leaders_of

BROKERS = [Broker(broker_id, f"node-{broker_id}", 9092) for broker_id in (7, 12_345, 1_073_741_823)]


def test_leader_is_the_broker_with_the_highest_hash() -> None:
    found = leaders_of("größe", 300, BROKERS)

    assert found == [
        max(BROKERS, key=lambda each: crc32(f"{each.broker_id}/größe/{number}".encode())).broker_id
        for number in range(300)
    ]
    assert set(found) == {each.broker_id for each in BROKERS}


def test_broker_that_goes_moves_its_own_partitions_only() -> None:
    before, after = leaders_of("t", 300, BROKERS), leaders_of("t", 300, BROKERS[:-1])

    assert all(new == old for old, new in zip(before, after, strict=True) if old != BROKERS[-1].broker_id)
