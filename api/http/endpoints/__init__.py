"""What can be asked over HTTP: an endpoint is its signature, the shapes beside it, and one call to the coordinator."""
