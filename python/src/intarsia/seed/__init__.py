"""System identification: a directory or a store measured as a black box, for `predict`.

```text
probe     the clock around system calls; standard library only, as it also runs on other hosts
rounds    rounds of probes until every mean is known well enough, or time is up
effects   peculiarities: page cache, read-ahead, first touch, buffered writes, leases, passthrough
findings  what calls of any size take, what several processes gain
unlike    hosts that differ from the first ones
power     what the host draws: by its counters, or by a file
samples   times of requests, as many as a profile takes
told      what no time tells, and how it is known
profile   the form that `intarsia predict` reads
closure   the measurement itself, foretold from the profile
```
"""
