//! Files and directories that only their owner can read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use intarsia_types::{Error, Result};

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
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(name);
    // One left behind by a crash could have any mode.
    let _ = std::fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_data()).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)
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
}
