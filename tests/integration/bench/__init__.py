"""Each benchmark works, in a tiny form; what it finds out is not judged here."""
