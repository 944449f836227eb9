"""How decisions become rows, without a database."""
