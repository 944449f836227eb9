"""The command line, a file for each group of commands; a command loads what it needs when it runs, and not before."""
