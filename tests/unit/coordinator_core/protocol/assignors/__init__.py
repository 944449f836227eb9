"""What assignors give out, by hand, by scenario and by law."""
