"""From a bound query to operators: logical nodes, rules in a visible order, physical choice, EXPLAIN."""
