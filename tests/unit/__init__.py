"""Each decision and each rule by itself: nothing but Python is needed."""
