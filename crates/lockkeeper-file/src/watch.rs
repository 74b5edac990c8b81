//! The files that inotify watches, and their waiters. A file is watched once, as long as a waiter
//! needs its events.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use super::liveness::{ClientId, Clients};
use super::notify::{NotifyFile, NotifyFolder};

/// The number of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

impl Ticket {
    pub(super) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// A subject of events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// A writer wrote to a notification file.
    Notify(NotifyFile),
    /// A client's file was closed.
    Client(ClientId),
}

/// The events of inotify.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) of: HashSet<Subject>,
    /// These subjects cannot be watched any more, or an event of them was lost.
    pub(super) unseen: HashSet<Subject>,
}

/// All watches.
#[derive(Debug)]
pub(super) struct Watches {
    /// Made when it is first needed: a user has 128 instances by default, and most clients never
    /// wait.
    inotify: Option<OwnedFd>,
    notify_folder: NotifyFolder,
    clients: Clients,
    watches: HashMap<Subject, Watch>,
    subjects: HashMap<i32, Subject>,
}

#[derive(Debug)]
struct Watch {
    descriptor: i32,
    tickets: HashSet<Ticket>,
}

impl Watches {
    pub(super) fn new(notify_folder: NotifyFolder, clients: Clients) -> Self {
        Self {
            inotify: None,
            notify_folder,
            clients,
            watches: HashMap::new(),
            subjects: HashMap::new(),
        }
    }

    /// Readable when there is news.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }

    /// Begins to watch a subject for a waiter.
    pub(super) fn add(&mut self, ticket: Ticket, subject: &Subject) -> io::Result<()> {
        if !self.watches.contains_key(subject) {
            let descriptor = self.begin(subject)?;
            self.subjects.insert(descriptor, subject.clone());
            self.watches.insert(subject.clone(), Watch { descriptor, tickets: HashSet::new() });
        }
        if let Some(watch) = self.watches.get_mut(subject) {
            watch.tickets.insert(ticket);
        }
        Ok(())
    }

    fn begin(&mut self, subject: &Subject) -> io::Result<i32> {
        let inotify = match self.inotify.take() {
            Some(inotify) => inotify,
            None => inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
        };
        let inotify = self.inotify.insert(inotify);
        let (path, news) = match subject {
            // A file that was removed has no other event as long as a client has it open.
            Subject::Notify(file) => {
                (self.notify_folder.create(*file)?, WatchFlags::MODIFY | WatchFlags::ATTRIB)
            }
            Subject::Client(client) => (self.clients.path(client), WatchFlags::CLOSE_WRITE),
        };
        Ok(inotify::add_watch(inotify, &path, news)?)
    }

    /// Ends the watch of a subject, if no other waiter needs it.
    pub(super) fn remove(&mut self, ticket: Ticket, subject: &Subject) {
        let Some(watch) = self.watches.get_mut(subject) else { return };
        watch.tickets.remove(&ticket);
        if watch.tickets.is_empty() {
            // The call fails if the file is gone, and the watch with it.
            let _ = self
                .inotify
                .as_ref()
                .map(|inotify| inotify::remove_watch(inotify, watch.descriptor));
            self.subjects.remove(&watch.descriptor);
            self.watches.remove(subject);
        }
    }

    /// The waiters of a subject.
    pub(super) fn tickets(&self, subject: &Subject) -> Vec<Ticket> {
        self.watches.get(subject).into_iter().flat_map(|watch| &watch.tickets).copied().collect()
    }

    /// The events since the last call.
    pub(super) fn news(&self) -> News {
        let mut news = News::default();
        let Some(inotify) = &self.inotify else { return news };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        while let Ok(event) = events.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                news.unseen.extend(self.subjects.values().cloned());
            } else if let Some(subject) = self.subjects.get(&event.wd()) {
                let ends = ReadFlags::ATTRIB | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
                let ended = event.events().intersects(ends);
                let list = if ended { &mut news.unseen } else { &mut news.of };
                list.insert(subject.clone());
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::files::Rights;

    /// Two watched notification files, and their paths.
    fn watched(folder: &std::path::Path) -> (Watches, [Subject; 2], [PathBuf; 2]) {
        let notify = NotifyFolder {
            path: folder.to_owned(),
            rights: Rights::of(&std::env::current_exe().unwrap()).unwrap(),
        };
        let mut watches = Watches::new(notify, Clients::new(folder.to_owned()));
        let first = NotifyFile::of_name(&"a".parse().unwrap());
        let second = ["b", "c"]
            .map(|name| NotifyFile::of_name(&name.parse().unwrap()))
            .into_iter()
            .find(|b| *b != first);
        let files = [first, second.unwrap()];
        for file in files {
            watches.add(Ticket::next(), &Subject::Notify(file)).unwrap();
        }
        (watches, files.map(Subject::Notify), files.map(|file| file.path(folder)))
    }

    #[test]
    fn when_news_was_lost_everybody_looks() {
        let folder = tempfile::tempdir().unwrap();
        let (watches, subjects, paths) = watched(folder.path());
        let most: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // One after the other, since the kernel makes one of two that are the same.
        for i in 0..=most {
            fs::write(&paths[i % 2], "!").unwrap();
        }
        assert_eq!(watches.news().unseen, subjects.into());
    }

    #[test]
    fn who_watches_a_file_that_was_removed_looks() {
        let folder = tempfile::tempdir().unwrap();
        let (watches, [first, _], paths) = watched(folder.path());
        fs::remove_file(&paths[0]).unwrap();
        let news = watches.news();
        assert_eq!((news.of, news.unseen), ([].into(), [first].into()));
    }

    /// The file itself stays for as long as a client has it open.
    #[test]
    fn who_watches_a_file_that_was_removed_while_it_is_open_looks() {
        let folder = tempfile::tempdir().unwrap();
        let (watches, [first, _], paths) = watched(folder.path());
        let _open = fs::File::open(&paths[0]).unwrap();
        fs::remove_file(&paths[0]).unwrap();
        let news = watches.news();
        assert_eq!((news.of, news.unseen), ([].into(), [first].into()));
    }
}
