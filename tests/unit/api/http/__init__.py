"""Problems, deadlines, limits and translation of bodies."""
