"""Each transform on rows by hand, each rule beside its pure twin, and the edges against a real Postgres."""
