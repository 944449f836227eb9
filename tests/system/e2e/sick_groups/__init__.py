"""An hour of sick groups, and a recount of every number that is shown of it."""
