"""What a newcomer does, from the command line to the database, with every part real."""
