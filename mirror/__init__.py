"""The mirror: follows the groups of a Kafka cluster, and changes nothing there.

A mirror is a node whose decisions were taken elsewhere. Kafka's coordinator writes them to `__consumer_offsets`; the
mirror reads them, turns them into the protocol's own records, and stores those as every node does.
"""
