"""Workflows of which only the shape was published, as instances of WfFormat 1.5."""

# Of 100 to 200 KB, as published: a database and what is docked.
SMALL_BYTES = 150_000
# Nothing is known of the times but that computing takes most of them.
DOCK_S, MERGE_S, SCORE_S = 10.0, 1.0, 1.0


def modftdock(docks=10):
    """modFTDock as W52 describes it: so many tasks dock against one database, one merges, one scores."""
    sizes, tasks = {"database": SMALL_BYTES}, []

    def task(name, parents, inputs, output, seconds, size):
        sizes[output] = size
        tasks.append((name, parents, inputs, output, seconds))

    numbers = range(docks)
    sizes |= {f"molecule-{number}": SMALL_BYTES for number in numbers}
    for number in numbers:
        task(
            f"dock-{number}",
            [],
            ["database", f"molecule-{number}"],
            f"docked-{number}",
            DOCK_S,
            SMALL_BYTES,
        )
    docked = [f"docked-{number}" for number in numbers]
    task(
        "merge",
        [f"dock-{number}" for number in numbers],
        docked,
        "merged",
        MERGE_S,
        docks * SMALL_BYTES,
    )
    task("score", ["merge"], ["merged"], "scored", SCORE_S, SMALL_BYTES)
    return instance("modftdock", tasks, sizes)


def instance(name, tasks, sizes):
    """The document; each task is its name, parents, inputs, output and seconds."""
    specified = [
        {"id": one, "name": one, "parents": parents, "inputFiles": inputs, "outputFiles": [output]}
        for one, parents, inputs, output, _ in tasks
    ]
    ran = [{"id": one, "runtimeInSeconds": seconds} for one, *_, seconds in tasks]
    files = [{"id": file, "sizeInBytes": size} for file, size in sizes.items()]
    workflow = {"specification": {"tasks": specified, "files": files}, "execution": {"tasks": ran}}
    return {"name": name, "schemaVersion": "1.5", "workflow": workflow}


SHAPES = {"modftdock": modftdock}
