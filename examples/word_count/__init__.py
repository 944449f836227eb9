"""Example: counts the words of a directory of growing files; each file is a partition, an offset is a byte position.

The directory `orders` is the topic `orders`, and its files `orders-0.log`, `orders-1.log`, ... are the partitions.
Several consumers share the files; if one is killed, the others continue with its files.

    python -m examples.word_count produce orders          # appends lines
    python -m examples.word_count consume orders          # counts words; run it in several terminals
    python -m examples.word_count total orders            # prints the counts

`topic.py` reads the files, `counts.py` stores the results, and `consumer.py` uses the agent.
"""
