//! The order of tasks.

use super::{File, Task, TaskId};

/// Makes every reader of a file wait for its writer, and tells parents of their children.
pub(super) fn join(tasks: &mut [Task], files: &mut [File]) {
    for file in files.iter_mut() {
        file.readers.sort_unstable();
        file.readers.dedup();
        let Some(writer) = file.writer else { continue };
        for reader in file.readers.iter().filter(|reader| **reader != writer) {
            tasks[*reader].parents.push(writer);
        }
    }
    for task in tasks.iter_mut() {
        task.parents.sort_unstable();
        task.parents.dedup();
    }
    for child in 0..tasks.len() {
        for at in 0..tasks[child].parents.len() {
            let parent = tasks[child].parents[at];
            tasks[parent].children.push(child);
        }
    }
}

/// Tasks of which each waits for the next and the last for the first, if there are any.
pub(super) fn cycle(tasks: &[Task]) -> Option<Vec<TaskId>> {
    let mut waiting: Vec<usize> = tasks.iter().map(|task| task.parents.len()).collect();
    let mut ready: Vec<TaskId> = (0..tasks.len()).filter(|task| waiting[*task] == 0).collect();
    let mut ended = vec![false; tasks.len()];
    while let Some(task) = ready.pop() {
        ended[task] = true;
        for child in &tasks[task].children {
            waiting[*child] -= 1;
            if waiting[*child] == 0 {
                ready.push(*child);
            }
        }
    }
    // Whoever is left has a parent that is left: going from parent to parent ends in a cycle.
    let mut path = Vec::new();
    let mut place = vec![None; tasks.len()];
    let mut task = ended.iter().position(|ended| !ended)?;
    loop {
        if let Some(start) = place[task] {
            return Some(path.split_off(start));
        }
        place[task] = Some(path.len());
        path.push(task);
        task = *tasks[task].parents.iter().find(|parent| !ended[**parent])?;
    }
}
