"""The operations of operators. Each one stores its row of `changes` in its own transaction, and may be repeated.

The node that owns a group changes it and its settings; any node changes the cluster's settings, topic metadata and
runs. Every operation may raise NotCoordinator, CoordinatorLoadInProgress or CoordinatorNotAvailable. Then nothing was
changed, or the outcome is unknown: repeat the operation with the same change id. Every change may raise
IdempotencyKeyConflict: its id belongs to another change.

An operation on one group locks the group, is decided, and is stored with its row of `changes`. One that was made before
under the same change id returns the recorded response. Of two concurrent requests with the same id the second waits for
the lock, and finds the first.
"""
