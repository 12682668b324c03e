//! One call that locates many files of a directory, or gives many a hint: `ioctl(2)` on the open directory.
//!
//! The buffer holds names, each ended by a zero byte, the last one by two, and before them the hints if there are any; it
//! comes back with as many answers as fit, in the same form. `python/src/intarsia/batch.py` and `docs/user/intarsia.h` have the other side.

use std::sync::Arc;

use fuser::{Errno, INodeNo, ReplyIoctl, Request};
use intarsia_node::{Caller, Located, Node, Op, Wait};
use intarsia_types::{Error, Hint, InodeId};
use rustix::ioctl::{Opcode, opcode};

use super::{Adapter, caller};
use crate::calls;
use crate::convert::{errno, ino};

/// Bytes of the buffer, both ways: as many as an `ioctl` number can tell.
const BUFFER_BYTES: usize = 16_380;
/// `_IOWR('I', 1, char[BUFFER_BYTES])` of `<linux/ioctl.h>`.
const LOCATE: Opcode = opcode::read_write::<[u8; BUFFER_BYTES]>(b'I', 1);
/// The longest answer to that, with the zero that ends all.
const ANSWER_MAX: usize = 16;
/// The same with another number.
const TAG: Opcode = opcode::read_write::<[u8; BUFFER_BYTES]>(b'I', 2);

impl Adapter {
    /// Answers the call if it is ours.
    pub(super) fn batch(
        &self,
        req: &Request,
        n: INodeNo,
        cmd: u32,
        asked: &[u8],
        reply: ReplyIoctl,
    ) {
        if cmd == TAG {
            return self.tag(req, n, asked, reply);
        }
        if cmd != LOCATE {
            return reply.error(Errno::ENOTTY);
        }
        let timer = Self::start_in(req, n, Op::Locate);
        let answers = match self.node.may_search(caller(req), ino(n)) {
            Ok(true) => Ok(self.locate_all(ino(n), asked)),
            Ok(false) => Err(Errno::EACCES),
            Err(e) => Err(errno(&e, "locate")),
        };
        self.finish(&timer, answers.is_ok());
        match answers {
            Ok(answers) => reply.ioctl(0, &answers),
            Err(errno) => reply.error(errno),
        }
    }

    /// Gives hints to many files, each in a commit: the metadata is waited for elsewhere.
    fn tag(&self, req: &Request, n: INodeNo, asked: &[u8], reply: ReplyIoctl) {
        let (node, caller, dir) = (Arc::clone(&self.node), caller(req), ino(n));
        let timer = Self::start_in(req, n, Op::Tag);
        let asked = asked.to_vec();
        self.lanes.run(Wait::Device, move || {
            let answers = tag_all(&node, caller, dir, &asked);
            node.counters().finish(&timer, answers.is_ok());
            calls::end(answers.is_ok());
            match answers {
                Ok(answers) => reply.ioctl(0, &answers),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// The answers that fit, and zeros up to the end of the buffer.
    fn locate_all(&self, dir: InodeId, asked: &[u8]) -> Vec<u8> {
        let mut answers = Vec::with_capacity(BUFFER_BYTES);
        for name in names(asked) {
            let answer = match self.node.locate_in(dir, name) {
                Ok(located) => in_words(&located),
                Err(Error::Invalid(_)) => "other".to_owned(),
                Err(error) => format!("errno={}", error.errno()),
            };
            // One zero ends the answer, one more the last of all.
            if answers.len() + answer.len() + 2 > BUFFER_BYTES {
                break;
            }
            answers.extend_from_slice(answer.as_bytes());
            answers.push(0);
        }
        answers.resize(BUFFER_BYTES, 0);
        answers
    }
}

/// A word for each name, `ok` or what is wrong.
fn tag_all(node: &Node, caller: Caller, dir: InodeId, asked: &[u8]) -> Result<Vec<u8>, Errno> {
    if !node.may_search(caller, dir).map_err(|e| errno(&e, "tag"))? {
        return Err(Errno::EACCES);
    }
    let mut words = names(asked);
    let hints = words.next().and_then(hints).ok_or(Errno::EINVAL)?;
    let mut answers = Vec::with_capacity(BUFFER_BYTES);
    for name in words {
        match node.tag_in(dir, name, &hints, Some(caller)) {
            Ok(()) => answers.extend_from_slice(b"ok\0"),
            Err(error) => answers.extend(format!("errno={}\0", error.errno()).bytes()),
        }
        if answers.len() + ANSWER_MAX > BUFFER_BYTES {
            break;
        }
    }
    answers.resize(BUFFER_BYTES, 0);
    Ok(answers)
}

/// The hints in `NAME=VALUE NAME=VALUE`, if all of them are some.
fn hints(words: &[u8]) -> Option<Vec<Hint>> {
    let words = std::str::from_utf8(words).ok()?;
    words.split(' ').map(|word| word.parse().ok()).collect()
}

/// The names in a buffer; what is no name is not there for anybody.
fn names(asked: &[u8]) -> impl Iterator<Item = &[u8]> {
    asked.split(|byte| *byte == 0).take_while(|name| !name.is_empty())
}

fn in_words(located: &Located) -> String {
    let Located { size_bytes, layout, chunk_bytes, hosts, .. } = located;
    let hosts: Vec<&str> = hosts.iter().map(|host| host.0.as_str()).collect();
    let chunk = chunk_bytes.map(|bytes| format!(" chunk={bytes}")).unwrap_or_default();
    format!("{layout} size={size_bytes}{chunk} hosts={}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use intarsia_types::NodeId;

    #[test]
    fn names_end_at_the_empty_one_or_with_the_buffer() {
        let all = |asked: &'static [u8]| names(asked).collect::<Vec<_>>();
        assert_eq!(all(b"a\0bb\0\0c\0"), [b"a".as_slice(), b"bb"]);
        assert_eq!(all(b"a\0bb"), [b"a".as_slice(), b"bb"]);
        assert!(all(b"").is_empty());
        assert!(all(b"\0a\0").is_empty());
    }

    #[test]
    fn hints_come_first_and_all_of_them_are_some() {
        assert_eq!(hints(b"place=local close=fast").unwrap().len(), 2);
        for bad in [b"".as_slice(), b"place", b"place=local ", b"place=here", b"\xff=1"] {
            assert_eq!(hints(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_answer_says_all_in_words() {
        let hosts = vec![NodeId("a".into()), NodeId("b".into())];
        let located = Located {
            size_bytes: 7,
            layout: "striped",
            chunk_bytes: Some(4),
            description: String::new(),
            hosts,
        };
        assert_eq!(in_words(&located), "striped size=7 chunk=4 hosts=a,b");
    }
}
