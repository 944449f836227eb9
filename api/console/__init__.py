"""The console is a page of plain files that asks the same API as everybody else; a node serves it at `/`."""
