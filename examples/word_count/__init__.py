"""Count the words of a directory of growing files; each file is a partition, and an offset is a byte of it.

The directory `orders` is the topic `orders`, and its files `orders-0.log`, `orders-1.log`, ... are the partitions.
Start several consumers and they share the files; kill one, and the others go on with its files.

    python -m examples.word_count produce orders          # appends lines
    python -m examples.word_count consume orders          # counts words; in as many terminals as you like
    python -m examples.word_count total orders            # what has been counted

`topic.py` is what is read, `counts.py` what comes of it, and `consumer.py` shows the agent at work.
"""
