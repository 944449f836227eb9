"""Front doors to the core. They read, ask and answer; what happens to a group is decided behind them."""
