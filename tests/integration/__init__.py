"""What only a real database shows."""
