//! What prepares a part of a change over several partitions, and what takes that back.

use intarsia_types::Result;

use super::transaction::Part;
use crate::intent::Intent;
use crate::pending::{Pending, Prepared};
use crate::{Condition, Mutation, Value, keys};

/// A participant's record, and the mutations of the commit that prepares the part: they put that record, and an intent on every
/// key whose value the part's conditions state. If the part only makes what nobody can know of yet, they make it as it will be,
/// without intents.
pub(super) fn preparation(intent: Intent, part: &Part) -> Result<(Value, Vec<Mutation>)> {
    let mut on_commit = Vec::with_capacity(part.mutations.len());
    let mut on_abort = Vec::with_capacity(part.conditions.len());
    let mut mutations = Vec::with_capacity(part.conditions.len() + 1);
    if part.is_unknown {
        mutations.extend_from_slice(&part.mutations);
        on_abort.extend(part.mutations.iter().filter_map(taking_back));
    } else {
        for back in part.conditions.iter().filter_map(restoring) {
            mutations.push(Mutation::Put(back.key().clone(), intent.encode()));
            if !part.writes(back.key()) {
                on_commit.push(back.clone());
            }
            on_abort.push(back);
        }
        on_commit.extend_from_slice(&part.mutations);
    }
    let prepared = Prepared { coordinator: intent.coordinator, on_commit, on_abort };
    let record = Pending::Prepared(prepared).encode()?;
    mutations.push(Mutation::Put(keys::transaction(intent.transaction), record.clone()));
    Ok((record, mutations))
}

/// The change that takes back a mutation that made something new.
fn taking_back(mutation: &Mutation) -> Option<Mutation> {
    match mutation {
        Mutation::Put(key, _) => Some(Mutation::Delete(key.clone())),
        Mutation::Add { key, delta } => Some(Mutation::Add { key: key.clone(), delta: -delta }),
        Mutation::Delete(_) | Mutation::Merge { .. } => None,
    }
}

/// The change that gives a key the value that a condition states again; none for conditions that do not state the whole value.
pub(super) fn restoring(condition: &Condition) -> Option<Mutation> {
    match condition {
        Condition::Absent(key) => Some(Mutation::Delete(key.clone())),
        Condition::Equals(key, value) => Some(Mutation::Put(key.clone(), value.clone())),
        Condition::Present(_)
        | Condition::Unheld(_)
        | Condition::AbsentOr(..)
        | Condition::PrefixEmpty(_) => None,
    }
}
