//! Registers in the file of a file store.

use std::fmt;

use async_trait::async_trait;

use super::FileStore;
use super::layout::Commit;
use super::layout::register::load;
use crate::Result;
use crate::registers::{Register, Swap, Versioned, Write, check_key, check_write};

/// Registers in the file of a [`FileStore`], for the processes of one host:
/// [`FileStore::register`]. A write is on disk before it is answered, and stays until the file is
/// deleted. A restart of the host changes nothing.
///
/// While another process is stopped in the middle of a write, writes wait and reads work, as in the
/// whole store.
#[derive(Clone)]
pub struct FileRegister(FileStore);

impl FileStore {
    /// The registers in this file. They are separate from its locks: the same text may be the key
    /// of a register and the name of a lock.
    ///
    /// ```
    /// use lockkeeper::FileStore;
    /// use lockkeeper::optimistic::update;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("locks.db");
    /// let register = FileStore::new(path).open().await?.register();
    /// let home = update(&register, "page/home", async |_| b"hello".to_vec()).await?;
    /// assert_eq!(home.version.get(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self) -> FileRegister {
        FileRegister(self.clone())
    }
}

impl fmt::Display for FileRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FileRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileRegister").field(&self.0.path()).finish()
    }
}

#[async_trait]
impl Register for FileRegister {
    async fn load(&self, key: &str) -> Result<Option<Versioned>> {
        check_key(key)?;
        let key = key.to_owned();
        self.0.look(move |db, _| load(db, &key)).await
    }

    async fn compare_and_swap(&self, key: &str, write: &Write) -> Result<Swap> {
        check_write(key, write)?;
        let (key, write) = (key.to_owned(), write.clone());
        self.0.commit(Commit::OnDisk, move |txn| txn.swap(&key, &write)).await
    }
}
