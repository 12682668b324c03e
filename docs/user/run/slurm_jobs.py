"""Runs a workflow on workers that are jobs of Slurm, on the nodes of a store.

    python slurm_jobs.py WORKFLOW JOBS [OPTION OF intarsia run]…

The job that has brought the store up calls it. The workers are jobs beside that one, and end with
the run.
"""

import subprocess
import sys

from dask_jobqueue import SLURMCluster

workflow, jobs, *options = sys.argv[1:]
# Those of this job, which has the store on them.
nodes = subprocess.check_output(["scontrol", "show", "hostnames"], text=True).split()
with SLURMCluster(
    cores=1,  # of each job: its worker runs so many tasks at once
    processes=1,
    memory="2GB",
    walltime="01:00:00",
    interface="eth0",  # a network on which the nodes reach each other
    # Nodes have their names as features.
    job_extra_directives=[f"--constraint={'|'.join(nodes)}"],
) as cluster:
    cluster.scale(jobs=int(jobs))
    # The run begins with the first of them; the others join it when their jobs begin.
    cluster.wait_for_workers(1)
    words = ["intarsia", "run", workflow, "--scheduler", cluster.scheduler_address, *options]
    status = subprocess.call(words)
sys.exit(status)
