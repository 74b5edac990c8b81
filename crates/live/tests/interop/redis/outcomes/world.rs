//! The servers of one cell of the table, and the clients of one kind.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use lockkeeper_live::{Proxy, Redis};

use super::super::kind::Kind;
use super::super::served;
use crate::lines::Lines;

/// Independent servers. A server that is to fail is behind a proxy, which costs time.
pub(super) struct World {
    kind: Kind,
    pub(super) servers: Vec<Redis>,
    proxies: Vec<Option<Proxy>>,
}

impl World {
    pub(super) fn start(kind: Kind, servers: usize, behind_proxies: &[usize]) -> Self {
        let servers: Vec<_> = (0..servers).map(|_| Redis::start().unwrap()).collect();
        servers.iter().for_each(count_at_once);
        let proxy = |(number, server): (usize, &Redis)| {
            behind_proxies.contains(&number).then(|| Proxy::resp(server.address()).unwrap())
        };
        let proxies = servers.iter().enumerate().map(proxy).collect();
        Self { kind, servers, proxies }
    }

    /// A client of all servers, in a process of its own.
    pub(super) fn client(&self, ttl: Duration) -> Lines {
        let both = self.servers.iter().zip(&self.proxies);
        let addresses: Vec<SocketAddr> = both
            .map(|(server, proxy)| proxy.as_ref().map_or(server.address(), Proxy::address))
            .collect();
        match self.kind {
            Kind::Us(layout, _) => served::start(layout, &addresses, ttl),
            Kind::Foreign(program, kind) => program.start(kind, &addresses, ttl),
        }
    }

    pub(super) fn proxy(&self, server: usize) -> &Proxy {
        self.proxies[server].as_ref().unwrap()
    }

    /// Refuses all connections to a server, as a machine without the server does.
    pub(super) fn refuse(&self, server: usize) {
        self.proxy(server).refuse();
        self.proxy(server).cut();
    }

    /// The connections that write this key at the first server, in their order, from now on.
    pub(super) fn writers(&self, key: &str) -> Receiver<String> {
        let (sender, writers) = channel();
        let mut monitor = TcpStream::connect(self.servers[0].address()).unwrap();
        monitor.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(monitor).lines().map_while(std::result::Result::ok);
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        let write = format!("\"set\" \"{key}\"");
        // The thread ends with the server.
        std::thread::spawn(move || {
            for line in lines.filter(|line| line.to_ascii_lowercase().contains(&write)) {
                // +1764160000.123456 [0 127.0.0.1:40000] "SET" "counter" "1"
                let writer = line.split(['[', ']']).nth(1).unwrap_or_default().to_owned();
                if sender.send(writer).is_err() {
                    return;
                }
            }
        });
        writers
    }
}

/// Lets lockkeeper's locks on a new server count at once, as `lockkeeper doctor --init` does.
fn count_at_once(server: &Redis) {
    let run = server.info("run_id").unwrap();
    server.run(&["SET", "lk:born", &format!("{run} 0")]).unwrap();
}

/// What stands for an answer after the limit.
pub(super) const NO_ANSWER: &str = "no answer";

/// The answer to a line, and its time.
pub(super) fn ask(client: &mut Lines, line: &str, limit: Duration) -> (String, Duration) {
    client.send(line);
    answer(client, limit)
}

/// The next answer, and how long it took.
pub(super) fn answer(client: &mut Lines, limit: Duration) -> (String, Duration) {
    let start = Instant::now();
    let answer = client.answer_within(limit).unwrap_or_else(|| NO_ANSWER.to_owned());
    (answer, start.elapsed())
}

/// Milliseconds, with a decimal where the number is small.
pub(super) fn millis(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}
