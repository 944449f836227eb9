"""Each job is parse → session → read → transform → write → stop, and holds no rule."""
