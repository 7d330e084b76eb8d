"""W-join, a join of many streams with a window for every pair: NLW, HW, MW, GCA, LCA and their rivals."""
