"""Each rule here is also a pure function in `coordinator_core.protocol`, and a property test holds the two equal."""
