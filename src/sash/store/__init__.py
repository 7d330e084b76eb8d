"""Where windows live: signed batches, logs of blocks, and indexes over them that can always be rebuilt."""
