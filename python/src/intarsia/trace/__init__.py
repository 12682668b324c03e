"""Workloads from records of runs: what ran, on which files, whatever store it ran on.

```text
strace    processes and their system calls      darshan   jobs and their counters
wfformat  instances, and what `intarsia run` records
   └─ workload   one form: tasks, files, operations  ──  export   native, WfFormat, Chrome trace
```
"""
