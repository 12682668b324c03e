"""Models of the performance of a store: ours, the published ones, and what is on the shelf."""
