//! A small file is replaced so that a crash leaves the old or the new content.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use intarsia_types::{Error, Result};

/// Replaces a small file as a whole: a crash leaves the old or the new content, on stable storage.
///
/// On a full disk a file that is there already is overwritten where it lies, which takes no room: a store must come up
/// there, so that something can be removed. Only a crash in that very moment can leave a mixture.
///
/// # Errors
/// The system's own.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = Path::new(&temporary);
    let written = write_whole(temporary, content).and_then(|()| std::fs::rename(temporary, path));
    let written = match written {
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull && path.exists() => {
            // It may hold an inode, and what is left is to be as before.
            let _ = std::fs::remove_file(temporary);
            overwrite(path, content)
        }
        other => other,
    };
    written.map_err(|e| Error::io(format!("write {}", path.display()), e))
}

fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn overwrite(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overwritten_where_it_lies_is_the_new_content_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tier.json");
        replace_file(&path, b"a long content").unwrap();
        overwrite(&path, b"short").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
        assert!(overwrite(&dir.path().join("absent"), b"x").is_err());
    }
}
