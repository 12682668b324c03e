//! Files and directories that only their owner can read.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use intarsia_types::{Error, Result};
use tempfile::Builder;

/// Makes a directory of mode 0700 and its parents; one that exists is left as it is.
///
/// # Errors
/// When it cannot be made.
pub fn make_dir(dir: &Path) -> Result<()> {
    // Those above it as `mkdir -p` does: others may have to pass through them.
    dir.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(dir))
        .map_err(|e| Error::io(format!("directory {}", dir.display()), e))
}

/// Writes a file of mode 0600, so that a reader sees the old content or the new one, also after a crash.
///
/// # Errors
/// When it cannot be written.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let failed = |e| Error::io(format!("write {}", path.display()), e);
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    // Of a name of its own, as others may be writing the same file; of mode 0600.
    let temporary = Builder::new().prefix(&name).suffix(".new").tempfile_in(dir);
    let mut temporary = temporary.map_err(failed)?;
    let file = temporary.as_file_mut();
    file.write_all(content).and_then(|()| file.sync_data()).map_err(failed)?;
    temporary.persist(path).map(|_| ()).map_err(|e| failed(e.error))
}

/// Reads a file that must be its owner's alone.
///
/// # Errors
/// When it cannot be read, or when others could read or change it.
pub fn read_file(path: &Path) -> Result<String> {
    let failed = |e| Error::io(format!("read {}", path.display()), e);
    let meta = std::fs::metadata(path).map_err(failed)?;
    if meta.mode() & 0o077 != 0 {
        return Err(Error::Invalid(format!(
            "{} holds secrets and has mode {:03o}, so others can get at them; run: chmod 600 {}",
            path.display(),
            meta.mode() & 0o777,
            path.display()
        )));
    }
    std::fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_written_is_the_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        write_file(&path, b"one").unwrap();
        write_file(&path, b"two").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_file(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let message = read_file(&path).unwrap_err().to_string();
        assert!(message.contains("chmod 600"), "{message}");
    }

    #[test]
    fn threads_that_write_the_same_file_replace_it_by_turns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shared");
        std::thread::scope(|scope| {
            for content in [[b'a'; 100], [b'b'; 100], [b'c'; 100]] {
                let path = &path;
                scope.spawn(move || (0..50).for_each(|_| write_file(path, &content).unwrap()));
            }
        });
        let content = read_file(&path).unwrap().into_bytes();
        assert!(content.len() == 100 && content.iter().all(|byte| *byte == content[0]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
