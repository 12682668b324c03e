"""The page on an advice: what `intarsia advise --report` writes, and what `--search` finds.

```text
ask          the program, asked for advice and for predictions of its recommendation
sensitivity  what each seeded number changes, and whether it changes the advice
figures      Pareto front, stages, hosts over time, sensitivity
page         the report
search       configurations that an optimiser proposes, where there are too many to predict all
choices      which there are, by the command line
```
"""
