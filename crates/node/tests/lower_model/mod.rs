//! Random operations on a merged tree, held against a model that is nothing but a map of paths.

use std::collections::BTreeMap;

use intarsia_node::RenameMode;
use intarsia_types::{Error, FileKind, InodeId};
use proptest::prelude::*;

use super::{Bench, ROOT_CALLER, new_name};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What a path is in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Dir,
    File(Vec<u8>),
}

#[derive(Clone, Debug)]
enum Step {
    Create(String),
    MakeDir(String),
    Write(String, u8),
    Remove(String),
    RemoveDir(String),
    Rename(String, String),
    List(String),
    Restart,
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&NAMES[..]), 1..4).prop_map(|names| names.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => path().prop_map(Step::Create),
        2 => path().prop_map(Step::MakeDir),
        3 => (path(), any::<u8>()).prop_map(|(path, byte)| Step::Write(path, byte)),
        3 => path().prop_map(Step::Remove),
        2 => path().prop_map(Step::RemoveDir),
        4 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => path().prop_map(Step::List),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Default)]
struct Model(BTreeMap<String, Known>);

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Model {
    fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || self.0.get(path) == Some(&Known::Dir)
    }

    fn below(&self, path: &str) -> Vec<String> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.0.keys().filter(|known| known.starts_with(&prefix)).cloned().collect()
    }

    fn names(&self, path: &str) -> Vec<String> {
        let cut = if path.is_empty() { 0 } else { path.len() + 1 };
        self.below(path).iter().map(|p| p[cut..].to_owned()).filter(|n| !n.contains('/')).collect()
    }

    /// Whether the step can succeed; then it has.
    fn apply(&mut self, step: &Step) -> bool {
        match step {
            Step::Create(path) | Step::MakeDir(path) => {
                let can = self.is_dir(split(path).0) && !self.0.contains_key(path);
                let new = match step {
                    Step::MakeDir(_) => Known::Dir,
                    _ => Known::File(Vec::new()),
                };
                if can {
                    self.0.insert(path.clone(), new);
                }
                can
            }
            Step::Write(path, byte) => match self.0.get_mut(path) {
                Some(Known::File(content)) => {
                    content.resize(content.len().max(1), 0);
                    content[0] = *byte;
                    true
                }
                _ => false,
            },
            Step::Remove(path) => {
                let can = matches!(self.0.get(path), Some(Known::File(_)));
                if can {
                    self.0.remove(path);
                }
                can
            }
            Step::RemoveDir(path) => {
                let can = self.0.get(path) == Some(&Known::Dir) && self.below(path).is_empty();
                if can {
                    self.0.remove(path);
                }
                can
            }
            Step::Rename(from, to) => self.rename(from, to),
            Step::List(path) => self.is_dir(path),
            Step::Restart => true,
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(moved) = self.0.get(from).cloned() else { return false };
        if !self.is_dir(split(to).0) || (moved == Known::Dir && to.starts_with(&format!("{from}/")))
        {
            return false;
        }
        if from == to {
            return true;
        }
        let can = match (&moved, self.0.get(to)) {
            (_, None) | (Known::File(_), Some(Known::File(_))) => true,
            (Known::Dir, Some(Known::Dir)) => self.below(to).is_empty(),
            _ => false,
        };
        if can {
            for old in self.below(from).into_iter().chain([from.to_owned()]) {
                if let Some(known) = self.0.remove(&old) {
                    self.0.insert(format!("{to}{}", &old[from.len()..]), known);
                }
            }
        }
        can
    }
}

fn perform(bench: &Bench, step: &Step) -> intarsia_types::Result<()> {
    let place = |path: &str| {
        let (dir, name) = split(path);
        let dir = bench.find(dir)?;
        Ok::<(InodeId, Vec<u8>), Error>((dir, name.as_bytes().to_vec()))
    };
    match step {
        Step::Create(path) | Step::MakeDir(path) => {
            let kind = match step {
                Step::MakeDir(_) => FileKind::Directory,
                _ => FileKind::Regular,
            };
            let (dir, name) = place(path)?;
            bench.node.make(ROOT_CALLER, dir, &name, &new_name(kind)).map(|_| ())
        }
        Step::Write(path, byte) => bench.write(path, 0, &[*byte]),
        Step::Remove(path) => {
            let (dir, name) = place(path)?;
            bench.node.unlink(dir, &name)
        }
        Step::RemoveDir(path) => {
            let (dir, name) = place(path)?;
            bench.node.rmdir(dir, &name)
        }
        Step::Rename(from, to) => {
            let ((from, name), (to, new_name)) = (place(from)?, place(to)?);
            bench.node.rename(from, &name, to, &new_name, RenameMode::Replace)
        }
        Step::List(path) => {
            let dir = bench.find(path)?;
            bench.node.list(dir, 0, 100).map(|_| ())
        }
        Step::Restart => Ok(()),
    }
}

/// Compares the whole tree.
fn compare(bench: &Bench, model: &Model, dir: &str) {
    assert_eq!(bench.names(dir), model.names(dir), "listing of '{dir}'");
    for name in model.names(dir) {
        let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        match &model.0[&path] {
            Known::Dir => compare(bench, model, &path),
            Known::File(content) => assert_eq!(&bench.read(&path).unwrap(), content, "{path}"),
        }
    }
}

fn fill(model: &Model, lower: &std::path::Path) {
    for (path, known) in &model.0 {
        match known {
            Known::Dir => std::fs::create_dir(lower.join(path)).unwrap(),
            Known::File(content) => std::fs::write(lower.join(path), content).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn the_merged_tree_is_that_of_the_model(
        before in prop::collection::vec(step(), 0..24),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut model = Model::default();
        for step in &before {
            model.apply(step);
        }
        let lower = model.clone();
        let mut bench = Bench::new(|dir| fill(&lower, dir));
        for step in &steps {
            if matches!(step, Step::Restart) {
                bench = bench.reopen();
            }
            let can = model.apply(step);
            let did = perform(&bench, step);
            prop_assert_eq!(did.is_ok(), can, "{:?} gave {:?}", step, did);
        }
        compare(&bench, &model, "");
        bench.check();
        let bench = bench.reopen();
        compare(&bench, &model, "");
        // Nothing has changed there.
        let mut there = Model::default();
        read_back(&bench.lower(""), "", &mut there);
        prop_assert_eq!(there.0, lower.0);
        bench.node.close().unwrap();
    }
}

fn read_back(root: &std::path::Path, dir: &str, model: &mut Model) {
    for entry in std::fs::read_dir(root.join(dir)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        if root.join(&path).is_dir() {
            model.0.insert(path.clone(), Known::Dir);
            read_back(root, &path, model);
        } else {
            let content = std::fs::read(root.join(&path)).unwrap();
            model.0.insert(path, Known::File(content));
        }
    }
}
