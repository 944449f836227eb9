"""The images are built and docker/compose.yaml is run, by podman: `make docker-test`."""
