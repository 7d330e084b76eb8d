"""How a join finds partners: indexes over windows, which can always be rebuilt from the rows."""
