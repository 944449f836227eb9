"""What the project's parts cost, measured beside what the machine allows."""
