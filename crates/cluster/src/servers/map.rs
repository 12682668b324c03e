//! What a server wrote down of its Cluster (`nodes.conf`), put right before it starts again.
//!
//! A replica copies from whoever is at the address of its primary, without asking who that is. A host may come back with other
//! disks than the last ones, and another server is then at that address: the replica, which may have the only copy of its shard,
//! would empty itself and copy that one. So servers forget the addresses of those that are gone before they start.

use std::path::Path;

use intarsia_types::{Error, Result};

use super::{MAP, take_over};
use crate::deployment::ServerAddress;
use crate::private;
use crate::topology::{ServerId, address, server_id};

/// In place of the address of a server that has none, as Redis writes it (`clusterGenNodeDescription`).
const NOWHERE: &str = ":0@0";
const FLAG: &str = "noaddr";

/// Has the server in a directory forget the addresses of those that are gone, and know of those that it has to `learn` of: an
/// update about a server is overlooked by one that has never heard of it. One that runs there is ended first, if that changes anything.
///
/// # Errors
/// Of the file system, and when a server there cannot be ended.
pub fn correct_map(
    dir: &Path,
    is_gone: &dyn Fn(&ServerId, &ServerAddress) -> bool,
    learn: &[&ServerId],
) -> Result<()> {
    let path = dir.join(MAP);
    let map = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|e| Error::io(format!("read {}", path.display()), e))?,
    };
    let corrected = corrected(&map, is_gone, learn);
    if corrected == map {
        return Ok(());
    }
    let _claim = take_over(dir, "correcting")?;
    private::write_file(&path, corrected.as_bytes())
}

fn corrected(
    map: &str,
    is_gone: &dyn Fn(&ServerId, &ServerAddress) -> bool,
    learn: &[&ServerId],
) -> String {
    let mut lines: Vec<String> =
        map.lines().map(|line| without_address(line, is_gone).unwrap_or(line.into())).collect();
    let is_new = |id: &&&ServerId| !map.lines().any(|line| line.starts_with(&id.0));
    // Under the epoch 0, so that what others tell of it is newer.
    let line = |id: &&ServerId| format!("{id} {NOWHERE} master,{FLAG} - 0 0 0 disconnected");
    lines.splice(0..0, learn.iter().filter(is_new).map(line));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A line without its address, if it is of another server that is gone.
fn without_address(
    line: &str,
    is_gone: &dyn Fn(&ServerId, &ServerAddress) -> bool,
) -> Option<String> {
    let [id, place, flags, rest] = line.splitn(4, ' ').collect::<Vec<_>>().try_into().ok()?;
    let is_marked = |name| flags.split(',').any(|flag| flag == name);
    if is_marked("myself") || is_marked(FLAG) || !is_gone(&server_id(id)?, &address(place)?) {
        return None;
    }
    let more = place.split_once(',').map(|(_, more)| format!(",{more}")).unwrap_or_default();
    Some(format!("{id} {NOWHERE}{more} {flags},{FLAG} {rest}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::Topology;
    use crate::topology::tests::{A, B, C};

    fn map() -> String {
        format!(
            "{A} 10.0.0.1:7401@7402,n1,shard-id=x master - 0 1426238317239 8 connected 0-5460\n\
             {B} 10.0.0.2:7401@7402 myself,slave {A} 0 0 8 connected\n\
             vars currentEpoch 8 lastVoteEpoch 7\n"
        )
    }

    #[test]
    fn a_replica_forgets_where_its_primary_was_and_nothing_else() {
        let is_gone = |id: &ServerId, at: &ServerAddress| id.0 == A && at.port == 7401;
        let told = corrected(&map(), &is_gone, &[]);
        let expected =
            map().replace("10.0.0.1:7401@7402,n1", ":0@0,n1").replace("master", "master,noaddr");
        assert_eq!(told, expected);
        assert_eq!(corrected(&told, &is_gone, &[]), told, "it is done once");
        let known = Topology::parse_file(&told).unwrap();
        assert_eq!(known.peers().len(), 1);
        assert!(
            known.all().any(|peer| peer.id.0 == A && peer.has_slots() && peer.config_epoch == 8)
        );
    }

    #[test]
    fn its_own_line_and_those_of_others_that_are_there_stay() {
        assert_eq!(corrected(&map(), &|id, _| id.0 == B, &[]), map());
        assert_eq!(corrected(&map(), &|_, at| at.port == 7403, &[]), map());
        assert_eq!(corrected("of another form\n\n", &|_, _| true, &[]), "of another form\n\n");
    }

    #[test]
    fn who_is_to_be_learnt_of_is_known_without_an_address() {
        let (known, new) = (ServerId(A.into()), ServerId(C.into()));
        let told = corrected(&map(), &|_, _| false, &[&known, &new]);
        assert_eq!(told, format!("{C} :0@0 master,noaddr - 0 0 0 disconnected\n{}", map()));
        let of = |id: &ServerId| {
            Topology::parse_file(&told).unwrap().all().filter(|p| p.id == *id).count()
        };
        assert_eq!((of(&known), of(&new)), (1, 1));
    }

    proptest! {
        #[test]
        fn a_damaged_map_keeps_its_lines(at in 0usize..250, with in "[ -~\\n]{0,3}") {
            let mut damaged = map();
            if at <= damaged.len() {
                damaged.insert_str(at, &with);
            }
            let told = corrected(&damaged, &|_, _| true, &[]);
            prop_assert_eq!(told.lines().count(), damaged.lines().count());
            prop_assert_eq!(corrected(&told, &|_, _| true, &[]), told);
        }
    }
}
