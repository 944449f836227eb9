"""Each decision and each rule of the group protocol by itself."""
