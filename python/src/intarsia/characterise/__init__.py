"""Characterise data stores, and balance loads over them.

`workload` reads traces, `stores` measures simulated stores, `model` predicts the latency of a load
on a store with an interval, `aggregate` merges loads that share a store, `balance` says which load
should move where. Units throughout: latency in ms, sizes in bytes, random and read shares in per
cent, outstanding requests as their average number.
"""
