"""How agents reach the outside world: pairs of effectors and receptors, and the models behind them."""
