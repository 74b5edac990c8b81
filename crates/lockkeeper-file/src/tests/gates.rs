//! Requests at a gate that another process keeps shut.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rights::at_the_gate;
use super::*;
use crate::opened::OpenConnection;

/// Shuts the gate of a machine, as a process that is stopped in the middle of a write does.
fn shut(machine: &Machine) -> File {
    let gate = File::open(files::suffixed(&machine.path(), ".gate")).unwrap();
    gate.lock().unwrap();
    gate
}

/// A keeper sends one renewal after the other, each with all of its claims.
#[tokio::test]
async fn a_shut_gate_limits_each_request_and_piles_up_none() {
    let machine = Machine::new();
    let client = machine.client().await;
    let held = client.mutex("n");
    let token = client.granted(&held).await;
    let gate = shut(&machine);
    let list = [(&held, LiveState::Granted)];
    let waited = client.renew(&list).await.unwrap_err();
    assert_eq!((waited.kind(), waited.effect()), (ErrorKind::Unavailable, Effect::Unknown));
    for _ in 0..100 {
        let refused = client.renew(&list).await.unwrap_err();
        assert_eq!((refused.kind(), refused.effect()), (ErrorKind::Unavailable, Effect::None));
        // The client cannot know which of the two it is.
        let problem = "a process is in the middle of a write, or many are in turn";
        assert!(refused.to_string().contains(problem), "{refused}");
        assert!(refused.remedy().unwrap().contains("a faster disk"), "{refused}");
    }
    gate.unlock().unwrap();
    let renewed = loop {
        match client.renew(&list).await {
            Ok(renewed) => break renewed,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(renewed, [Renewal::Held { token, ttl: held.ttl }]);
}

/// The file of the client is released first: the session would have no client to end with.
#[tokio::test]
async fn a_store_that_is_dropped_before_its_turn_opens_no_session() {
    let machine = Machine::new();
    let store = machine.open().await;
    let gate = shut(&machine);
    {
        let id = SessionId::random();
        let (spec, opens) = (short(), ms(50));
        let opening = Store::open(&store, &id, &spec);
        assert!(tokio::time::timeout(opens, opening).await.is_err());
    }
    // Another process has recorded the end of this client, which has no session yet.
    let file = machine.0.path().join("locks.db.live").join(&*store.0.own);
    drop(store);
    fs::remove_file(file).unwrap();
    gate.unlock().unwrap();
    while OpenConnection::count(&machine.path()) > 0 {
        tokio::task::yield_now().await;
    }
    let other = machine.open().await;
    let count = "SELECT count(*) FROM lk_session";
    assert_eq!(other.write(|txn| txn.number(count)).await.unwrap(), 0);
}

/// The disk hangs (a frozen file system, a device that does not answer), and the reader's thread
/// with it.
#[tokio::test]
async fn a_read_ends_though_the_disk_does_not_answer_and_is_not_done_later() {
    use crate::registers::Register;

    let machine = Machine::new();
    let store = machine.open().await;
    let (goes_on, hangs) = std::sync::mpsc::channel::<()>();
    let hang = store.0.reader.ask(move |_| {
        let _ = hangs.recv();
        Ok(())
    });
    assert!(tokio::time::timeout(ms(50), hang).await.is_err());
    let done = Arc::new(AtomicBool::new(false));
    let (n, register, mark) = (name("n"), store.register(), Arc::clone(&done));
    let look = store.look(move |_, _| {
        mark.store(true, Ordering::Relaxed);
        Ok(())
    });
    let looks = async {
        tokio::join!(store.line(&n), store.id(), store.lines("", None, 1), register.load("k"), look,)
    };
    let (line, id, lines, load, look) =
        tokio::time::timeout(Duration::from_secs(30), looks).await.unwrap();
    let errors = [line.err(), id.err(), lines.err(), load.err(), look.err()];
    for error in errors.map(Option::unwrap) {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None));
        assert!(error.to_string().contains("a look at the file has taken seconds"), "{error}");
    }
    drop(goes_on);
    store.line(&n).await.unwrap();
    assert!(!done.load(Ordering::Relaxed));
}

/// A program that opens the store with a time limit, and tries again.
#[tokio::test]
async fn openings_that_were_given_up_at_a_shut_gate_pile_up_no_threads() {
    let machine = Machine::new();
    drop(machine.open().await);
    let path = files::suffixed(&machine.path(), ".gate");
    let gate = shut(&machine);
    let open = || {
        let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
        files.filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == path)).count()
    };
    let until = async |count: usize| {
        while open() > count {
            tokio::time::sleep(ms(5)).await;
        }
    };
    for _ in 0..20 {
        let opening = FileStore::new(machine.path()).open();
        assert!(tokio::time::timeout(ms(20), opening).await.is_err());
    }
    // One is of this test, and two are of the opening in the queue.
    until(3).await;
    gate.unlock().unwrap();
    until(1).await;
    drop(machine.open().await);
}

/// An opening that tries in turn gets no turn while others are in the queue.
#[tokio::test]
async fn an_opening_at_a_shut_gate_takes_the_queue_from_no_opening_of_another_file() {
    let opening = async |machine: &Machine| {
        let waits = at_the_gate(machine, FileStore::new(machine.path()));
        tokio::time::timeout(Duration::from_secs(20), waits).await.expect("it is in the queue")
    };
    let first = Machine::new();
    let (gate, first_opens) = opening(&first).await;
    let number = |gate: &Path| fs::metadata(gate).unwrap().ino() % 64;
    let second = loop {
        let machine = Machine::new();
        drop(machine.open().await);
        let [one, other] =
            [&first, &machine].map(|machine| number(&files::suffixed(&machine.path(), ".gate")));
        if one != other {
            break machine;
        }
    };
    let (other_gate, second_opens) = opening(&second).await;
    drop((gate, other_gate));
    first_opens.await.unwrap().unwrap();
    second_opens.await.unwrap().unwrap();
}

/// A program with a store for each of its parts ends while another process is stopped.
#[tokio::test]
async fn the_drops_of_many_stores_at_a_shut_gate_wait_for_half_a_second_together() {
    let machine = Machine::new();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(machine.open().await);
    }
    let gate = shut(&machine);
    let begun = clock();
    drop(stores);
    let took = since(begun);
    gate.unlock().unwrap();
    assert!(took < Duration::from_secs(1), "{took:?}");
    // A drop at the open gate waits for the threads again. Other tests may have shut another gate
    // that this process takes for the same one.
    for _ in 0..100 {
        while OpenConnection::count(&machine.path()) > 0 {
            tokio::task::yield_now().await;
        }
        drop(machine.open().await);
        if OpenConnection::count(&machine.path()) == 0 {
            return;
        }
    }
    panic!("no drop waits any more");
}
