"""Each folder here proves one kind of thing; CONTRIBUTING.md says which."""
