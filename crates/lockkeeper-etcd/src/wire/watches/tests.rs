//! In whichever order etcd answers, and wherever a stream ends: a watch receives all changes since
//! it began, or its end, and never a change of another watch's keys.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::wire::messages::KeyValue;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// The client watches a key, or all of them.
    Watch(Option<usize>),
    /// The reader does not listen any more.
    Drop(usize),
    /// A client changes a key.
    Change(usize),
    /// etcd takes the next request of each of its streams.
    Take,
    /// The next answer of each stream arrives.
    Arrive,
    /// etcd ends a watch: compacted, or without a leader.
    Cancel(usize),
    /// It refuses the next one, and does not say which.
    Refuse,
    /// It says how far it is.
    Progress(usize),
    /// The connection ends; what was on its way in it is lost.
    Cut,
    /// The member is left for another one.
    Leave,
}

/// One stream as etcd has it.
struct Stream {
    number: u64,
    requests: Requests,
    /// What it watches there, by the number that the client gave.
    watches: Vec<(i64, What)>,
    answers: VecDeque<WatchResponse>,
    is_cut: bool,
}

/// A watch of the client, and what it has to receive.
struct Mine {
    id: i64,
    what: What,
    events: Receiver<Report>,
    expected: Vec<i64>,
    received: Vec<i64>,
    has_begun: bool,
    is_over: bool,
}

#[derive(Default)]
struct World {
    state: State,
    streams: Vec<Stream>,
    mine: Vec<Mine>,
    revision: i64,
    left: usize,
    refuses: bool,
}

impl World {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Watch(key) => self.watch(key),
            Step::Drop(which) if !self.mine.is_empty() => {
                let gone = self.mine.swap_remove(which % self.mine.len());
                self.state.forget(gone.id);
            }
            Step::Change(key) => self.change(KEYS[key]),
            Step::Take => {
                for stream in 0..self.streams.len() {
                    self.take(stream);
                }
            }
            Step::Arrive => {
                for stream in 0..self.streams.len() {
                    self.arrive(stream);
                }
            }
            Step::Cancel(which) => {
                self.say(which, |id| WatchResponse { watch_id: id, canceled: true, ..none() }, true)
            }
            Step::Progress(which) => {
                self.say(which, |id| WatchResponse { watch_id: id, ..none() }, false)
            }
            Step::Refuse => self.refuses = true,
            Step::Cut => {
                let Some(stream) = self.streams.last_mut() else { return };
                stream.is_cut = true;
                self.state.is_over(stream.number);
            }
            Step::Leave => {
                self.state.leave(self.left);
                self.left += 1;
            }
            Step::Drop(_) => {}
        }
    }

    fn watch(&mut self, key: Option<usize>) {
        let what = match key {
            Some(key) => What { key: KEYS[key].into(), end: Bytes::new(), only_deletions: false },
            None => What { key: "a".into(), end: "d".into(), only_deletions: false },
        };
        if let Some((number, requests, _over)) = self.state.open(self.left) {
            let (watches, answers) = (Vec::new(), VecDeque::new());
            self.streams.push(Stream { number, requests, watches, answers, is_cut: false });
        }
        let (id, events) = self.state.watch(what.clone());
        let (expected, received) = (Vec::new(), Vec::new());
        self.mine.push(Mine {
            id,
            what,
            events,
            expected,
            received,
            has_begun: false,
            is_over: false,
        });
    }

    fn change(&mut self, key: &'static str) {
        self.revision += 1;
        let (key, revision) = (Bytes::from_static(key.as_bytes()), self.revision);
        for stream in &mut self.streams {
            for (id, _) in stream.watches.iter().filter(|(_, what)| what.has(&key)) {
                let kv =
                    KeyValue { key: key.clone(), mod_revision: revision, ..KeyValue::default() };
                let events = vec![Event { kv: Some(kv), ..Event::default() }];
                stream.answers.push_back(WatchResponse { watch_id: *id, events, ..none() });
                self.mine
                    .iter_mut()
                    .filter(|mine| mine.id == *id)
                    .for_each(|mine| mine.expected.push(revision));
            }
        }
    }

    fn take(&mut self, stream: usize) -> bool {
        let stream = &mut self.streams[stream];
        let Ok(request) = stream.requests.0.try_recv() else { return false };
        match request.request_union {
            Some(RequestUnion::CreateRequest(_)) if std::mem::take(&mut self.refuses) => {
                stream.answers.push_back(WatchResponse {
                    watch_id: REFUSED,
                    created: true,
                    canceled: true,
                    ..none()
                });
            }
            Some(RequestUnion::CreateRequest(create)) => {
                let what = What { key: create.key, end: create.range_end, only_deletions: false };
                stream.watches.push((create.watch_id, what));
                stream.answers.push_back(WatchResponse {
                    watch_id: create.watch_id,
                    created: true,
                    ..none()
                });
            }
            Some(RequestUnion::CancelRequest(WatchCancelRequest { watch_id })) => {
                stream.watches.retain(|(id, _)| *id != watch_id);
                stream.answers.push_back(WatchResponse { watch_id, canceled: true, ..none() });
            }
            None => {}
        }
        true
    }

    fn arrive(&mut self, stream: usize) -> bool {
        let stream = &mut self.streams[stream];
        match stream.answers.pop_front().filter(|_| !stream.is_cut) {
            Some(answer) => self.state.on_response(stream.number, answer),
            None => false,
        }
    }

    /// etcd says this of one of its watches, which may end it.
    fn say(&mut self, which: usize, what: impl Fn(i64) -> WatchResponse, ends: bool) {
        for stream in self.streams.iter_mut().filter(|stream| !stream.watches.is_empty()) {
            let at = which % stream.watches.len();
            let (id, _) = stream.watches[at];
            stream.answers.push_back(what(id));
            if ends {
                stream.watches.remove(at);
            }
        }
    }

    /// What each watch has received by now.
    fn receive(&mut self) {
        use tokio::sync::mpsc::error::TryRecvError::{Disconnected, Empty};
        for mine in &mut self.mine {
            loop {
                match mine.events.try_recv() {
                    Ok(Report::Begun) => {
                        assert!(
                            !mine.has_begun && mine.received.is_empty(),
                            "it begins once, before anything else"
                        );
                        mine.has_begun = true;
                    }
                    Ok(Report::Events(events)) => {
                        let keys = events.iter().filter_map(|event| event.kv.as_ref());
                        keys.clone().for_each(|kv| {
                            assert!(mine.what.has(&kv.key), "{kv:?} is another one's")
                        });
                        mine.received.extend(keys.map(|kv| kv.mod_revision));
                    }
                    Err(Empty) => break,
                    Err(Disconnected) => {
                        mine.is_over = true;
                        break;
                    }
                }
            }
            assert!(mine.has_begun || mine.received.is_empty());
            assert!(
                mine.expected.starts_with(&mine.received),
                "{:?} of {:?}",
                mine.received,
                mine.expected
            );
        }
    }

    /// Everything that is on its way arrives.
    fn settle(&mut self) {
        for stream in 0..self.streams.len() {
            while self.take(stream) {}
            while !self.streams[stream].is_cut && !self.streams[stream].answers.is_empty() {
                self.arrive(stream);
            }
        }
        self.receive();
    }
}

fn none() -> WatchResponse {
    WatchResponse::default()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::option::of(0..KEYS.len()).prop_map(Step::Watch),
        2 => any::<usize>().prop_map(Step::Drop),
        6 => (0..KEYS.len()).prop_map(Step::Change),
        6 => Just(Step::Take),
        8 => Just(Step::Arrive),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => Just(Step::Refuse),
        2 => any::<usize>().prop_map(Step::Progress),
        1 => Just(Step::Cut),
        1 => Just(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn a_watch_receives_all_that_happened_to_its_keys_or_its_end(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
            world.receive();
        }
        world.settle();
        for mine in &world.mine {
            let has_received_all = mine.has_begun && mine.received == mine.expected;
            prop_assert!(mine.is_over || has_received_all, "{:?} of {:?}", mine.received, mine.expected);
        }
        // A new watch reports what comes now, whatever was before.
        world.refuses = false;
        world.watch(Some(0));
        world.settle();
        world.change("a");
        world.settle();
        let last = world.mine.last().expect("it was just made");
        prop_assert_eq!(&last.received, &[world.revision]);
    }

    /// etcd's gRPC proxy numbers watches by itself.
    #[test]
    fn one_who_numbers_watches_otherwise_is_not_believed(
        changed in prop::collection::vec(0..KEYS.len(), 1..20),
        shift in 1_i64..3,
    ) {
        let mut world = World::default();
        (0..KEYS.len()).for_each(|key| world.watch(Some(key)));
        while world.take(0) {}
        changed.iter().for_each(|key| world.change(KEYS[*key]));
        world.streams[0].answers.iter_mut().for_each(|answer| answer.watch_id -= shift);
        while !world.streams[0].answers.is_empty() {
            world.arrive(0);
            for mine in &mut world.mine {
                while let Ok(Report::Events(events)) = mine.events.try_recv() {
                    for kv in events.iter().filter_map(|event| event.kv.as_ref()) {
                        prop_assert!(mine.what.has(&kv.key), "{kv:?} is another one's");
                    }
                }
            }
        }
    }
}

#[test]
fn a_watch_with_a_late_reader_ends_and_has_no_gap_before() {
    let mut world = World::default();
    world.watch(None);
    world.watch(Some(1));
    world.settle();
    for _ in 0..UNREAD + 7 {
        world.change("a");
        world.arrive(0);
    }
    assert!(world.take(0), "etcd learns that nobody watches any more");
    assert_eq!(world.streams[0].watches.len(), 1);
    world.receive();
    let late = &world.mine[0];
    assert!(
        late.is_over && late.received.len() <= UNREAD,
        "{} answers waited",
        late.received.len()
    );
    world.change("b");
    world.settle();
    assert!(
        !world.mine[1].is_over && world.mine[1].received == world.mine[1].expected,
        "the others hear on"
    );
}

#[test]
fn a_silent_stream_is_ended_with_its_watches_and_an_active_one_is_not() {
    let shared: Arc<Mutex<State>> = Arc::default();
    let mut opened = Vec::new();
    let mut begin = || {
        let mut state = lock(&shared);
        opened.extend(state.open(0));
        let (id, events) =
            state.watch(What { key: "a".into(), end: Bytes::new(), only_deletions: false });
        Watch { id, events, received_before: state.received, shared: Arc::downgrade(&shared) }
    };
    let first = begin();
    let mut other = begin();
    assert!(
        lock(&shared).on_response(1, WatchResponse { watch_id: other.id, created: true, ..none() })
    );
    first.end_if_silent();
    assert!(matches!(other.events.try_recv(), Ok(Report::Begun)));
    assert!(
        other.events.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty),
        "somebody has heard something"
    );
    let gone = begin();
    lock(&shared).forget(gone.id);
    gone.end_if_silent();
    assert!(
        other.events.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty),
        "one that is not there any more ends nothing"
    );
    let last = begin();
    last.end_if_silent();
    assert!(
        other
            .events
            .try_recv()
            .is_err_and(|error| error == mpsc::error::TryRecvError::Disconnected)
    );
    assert!(
        !lock(&shared).on_response(1, WatchResponse { watch_id: other.id, ..none() }),
        "its answers are nobody's"
    );
    drop((first, last));
    assert_eq!(opened.len(), 1);
}

#[test]
fn a_watchs_unread_events_and_its_end_are_known() {
    let shared: Arc<Mutex<State>> = Arc::default();
    lock(&shared).open(0);
    let (id, events) =
        lock(&shared).watch(What { key: "a".into(), end: Bytes::new(), only_deletions: false });
    let mut watch = Watch { id, events, received_before: 0, shared: Arc::downgrade(&shared) };
    let reader = watch.reader();
    assert!(reader.is_up_to_date());
    lock(&shared).on_response(1, WatchResponse { watch_id: id, created: true, ..none() });
    assert!(!reader.is_up_to_date());
    assert!(matches!(watch.events.try_recv(), Ok(Report::Begun)));
    assert!(reader.is_up_to_date());
    lock(&shared).is_over(1);
    assert!(!reader.is_up_to_date() && !watch.reader().is_up_to_date());
}

/// It takes what is sent, and answers nothing.
#[tokio::test]
async fn a_stream_that_was_ended_is_read_no_more_with_a_hanging_member() {
    let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hangs.local_addr().unwrap());
    let watches = Watches::new().unwrap();
    let connect = |requests| {
        let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect_lazy();
        (Grpc::new(channel), Request::new(requests))
    };
    let what = What { key: "a".into(), end: Bytes::new(), only_deletions: false };
    let watch = watches.watch(what, 0, connect);
    // Its request is on its way.
    let accept = tokio::task::spawn_blocking(move || {
        let (mut peer, _) = hangs.accept().unwrap();
        (std::io::Read::read(&mut peer, &mut [0; 64]).unwrap(), peer)
    });
    let (read, _peer) = accept.await.unwrap();
    assert!(read > 0);
    watches.end(0);
    drop(watch);
    let ended = async {
        while Arc::weak_count(&watches.shared) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.expect("nobody reads it");
}
