//! Pages that the kernel keeps only briefly: it has just read them from a file that another host is writing.
//!
//! When pages are dropped, the kernel ignores any answer about the file's length that it had asked for before the drop. So
//! pages of a file whose length it is asking for are dropped a little later, but not much later if it keeps asking.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_sync::Mutex;
use intarsia_types::InodeId;

use crate::body::Body;
use crate::cache::far_pages::FarPages;

/// How long the kernel keeps a page of a file that is being written elsewhere.
const BRIEF: Duration = Duration::from_millis(20);
/// How often a drop is put off while the kernel asks for the length.
const PUT_OFF_MAX: u32 = 4;

/// The files with pages that the kernel is to keep only briefly.
#[derive(Default)]
pub(crate) struct BriefPages(Mutex<Brief>);

#[derive(Default)]
struct Brief {
    /// A thread is running that will drop them.
    is_watched: bool,
    /// How often dropping the pages of each was put off.
    files: HashMap<InodeId, u32>,
    /// Questions for the length of a file that are being answered.
    asked: HashMap<InodeId, u32>,
    /// Files of which such a question was answered since the thread looked last: the kernel may not have processed the answer.
    answered: HashSet<InodeId>,
}

impl Brief {
    /// The files whose pages are to go now; `None` if there are none at all.
    fn due(&mut self) -> Option<Vec<InodeId>> {
        let answered = std::mem::take(&mut self.answered);
        if self.files.is_empty() {
            self.is_watched = false;
            return None;
        }
        let asked = &self.asked;
        let is_due = |ino: &InodeId, put_off: &mut u32| {
            *put_off += 1;
            *put_off > PUT_OFF_MAX || !(asked.contains_key(ino) || answered.contains(ino))
        };
        Some(self.files.extract_if(is_due).map(|(ino, _)| ino).collect())
    }
}

/// Held while a question of the kernel for a file's length is answered.
pub struct Asked<'a> {
    pages: &'a BriefPages,
    ino: InodeId,
}

impl BriefPages {
    fn asked(&self, ino: InodeId) -> Asked<'_> {
        *self.0.lock().asked.entry(ino).or_default() += 1;
        Asked { pages: self, ino }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut brief = self.pages.0.lock();
        let left = brief.asked.remove(&self.ino).unwrap_or(1) - 1;
        if left > 0 {
            brief.asked.insert(self.ino, left);
        }
        if brief.is_watched {
            brief.answered.insert(self.ino);
        }
    }
}

impl FarPages {
    /// The kernel asks for the length of a file, which others may write to.
    pub(crate) fn asked_for_length(&self, ino: InodeId) -> Asked<'_> {
        self.brief.asked(ino)
    }

    /// Has the kernel drop its pages of a file a moment from now, because it is about to read some, or to take a shorter length,
    /// while another host may be writing the file. Of its `body`, drops pieces that were fetched ahead before the writer came.
    pub(crate) fn note_brief(self: &Arc<Self>, ino: InodeId, body: Option<&Body>) {
        if let Some(body) = body {
            body.forget_pieces_if(|| self.takes_old_pieces(ino));
        }
        let mut brief = self.brief.0.lock();
        if brief.is_watched {
            brief.files.entry(ino).or_default();
            return;
        }
        if !self.can_drop() {
            return;
        }
        match watch(Arc::downgrade(self)) {
            Ok(()) => {
                brief.is_watched = true;
                brief.files.insert(ino, 0);
            }
            Err(error) => tracing::warn!(%ino, %error, "old pages of a file may show"),
        }
    }

    /// Drops the pages that are due. False if no file has any, so that the thread that watches ends.
    fn drop_brief(&self) -> bool {
        // The lock is released first: dropping waits for reads under way, and these take it.
        let Some(due) = self.brief.0.lock().due() else { return false };
        for ino in due {
            self.drop_pages(ino);
        }
        true
    }
}

/// Starts a thread that drops brief pages in time, until there are none.
fn watch(pages: Weak<FarPages>) -> std::io::Result<()> {
    let run = move || {
        let drop_brief = || pages.upgrade().is_some_and(|pages| pages.drop_brief());
        intarsia_sync::thread::sleep(BRIEF);
        while drop_brief() {
            intarsia_sync::thread::sleep(BRIEF);
        }
    };
    intarsia_sync::thread::Builder::new().name("pages".into()).spawn(run).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stay_while_the_length_is_asked_for_but_not_for_long() {
        let (pages, ino) = (BriefPages::default(), InodeId(9));
        let due = || pages.0.lock().due();
        pages.0.lock().is_watched = true;
        pages.0.lock().files.insert(ino, 0);
        let asked = pages.asked(ino);
        assert_eq!(due(), Some(Vec::new()), "it is being asked for");
        drop(asked);
        assert_eq!(due(), Some(Vec::new()), "the kernel may not have taken it yet");
        assert_eq!(due(), Some(vec![ino]));
        assert_eq!(due(), None);
        pages.0.lock().files.insert(ino, 0);
        let _asked = (pages.asked(ino), pages.asked(ino));
        for _ in 0..PUT_OFF_MAX {
            assert_eq!(due(), Some(Vec::new()));
        }
        assert_eq!(due(), Some(vec![ino]));
    }
}
