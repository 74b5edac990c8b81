//! Several processes sell from one stock over HTTP. One request reads the number of pieces, and
//! another request writes the new number.
//!
//! Without a lock the processes sell more than the stock has. With a lock, `sold + left` is the
//! number at the start, even though one process is paused for longer than its lease and writes
//! after that: the service checks the fencing token and refuses the write.
//!
//! ```sh
//! cargo run -p lockkeeper --example stock
//! ```

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, Request, StatusCode};
use axum::routing::get;
use axum::{Extension, Router};
use http_body_util::BodyExt;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use lockkeeper::fence::{FenceGate, FenceLayer};
use lockkeeper::{ErrorKind, FileStore, Guard, Keeper, Sequencer};
use tokio::runtime::Builder;
use tokio::sync::Notify;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const START: u32 = 20;
const SELLERS: u32 = 4;
const LEASE: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Builder::new_multi_thread().enable_all().build()?.block_on(show()),
        // On one thread: while the seller is blocked, no task runs, and the lock is not renewed.
        ["seller", url, store, pause] => Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(sell(url, store, pause == "pause")),
        _ => {
            Err("this example takes no arguments. Try: cargo run -p lockkeeper --example stock"
                .into())
        }
    }
}

async fn show() -> Result<()> {
    println!("{START} in stock, and {SELLERS} sellers, each a process of its own");

    let (sold, left) = without_a_lock().await?;
    assert!(sold + left > START, "the sellers did not meet: {sold} sold, {left} left");
    println!(
        "\nwithout a lock:\n  {sold} sold, {left} left: {} were sold that never were there",
        sold + left - START
    );

    let folder = tempfile::tempdir()?;
    let store = folder.path().join("locks.db");
    let (sold, left, refusal, bare) = with_a_lock(&store.display().to_string()).await?;
    assert_eq!(sold + left, START, "{sold} sold, {left} left");
    assert!(refusal.starts_with("412 ") && bare.starts_with("428 "), "{refusal}; {bare}");
    println!(
        "\nwith a lock, and a service that checks its token:\n  {sold} sold, {left} left: as many as there were"
    );
    println!("  one seller was held up for longer than its lease, and wrote then:\n    {refusal}");
    println!("  somebody wrote without a lock:\n    {bare}");
    Ok(())
}

/// All sellers read before any of them writes. Under load this happens by chance; here it always
/// happens.
async fn without_a_lock() -> Result<(u32, u32)> {
    let shop = Shop::open()?;
    let url = serve(shop.router()).await?;
    let mut sellers = Vec::new();
    for _ in 0..SELLERS {
        sellers.push(Seller::start(&url, "", true)?);
    }
    for seller in &mut sellers {
        assert_eq!(seller.line()?, "looked");
    }
    for seller in &mut sellers {
        seller.go_on()?;
    }
    let mut sold = 0;
    for seller in sellers {
        sold += seller.sold()?.0;
    }
    Ok((sold, shop.left()))
}

/// The first seller reads, and is then paused until its lease has expired and another seller has
/// sold a piece.
async fn with_a_lock(store: &str) -> Result<(u32, u32, String, String)> {
    let shop = Shop::open()?;
    let url = serve(shop.router().layer(FenceLayer::new(shop.gate.clone()))).await?;
    let mut held_up = Seller::start(&url, store, true)?;
    assert_eq!(held_up.line()?, "looked");
    let mut sellers = Vec::new();
    for _ in 1..SELLERS {
        sellers.push(Seller::start(&url, store, false)?);
    }
    shop.written.notified().await;
    held_up.go_on()?;
    let (mut sold, refusals) = held_up.sold()?;
    for seller in sellers {
        sold += seller.sold()?.0;
    }
    let refusal = refusals.first().ok_or("the seller that was held up was not refused")?;
    let (status, line) = Web::new(&url).ask(Method::PUT, None, "99").await?;
    Ok((sold, shop.left(), refusal.clone(), format!("{} {line}", status.as_u16())))
}

/// The protected resource: a number, and the gate that checks the tokens.
#[derive(Clone)]
struct Shop {
    stock: Arc<Mutex<u32>>,
    gate: Arc<FenceGate>,
    written: Arc<Notify>,
}

impl Shop {
    fn open() -> Result<Self> {
        let gate = Arc::new(FenceGate::new("stock".parse()?));
        Ok(Self { stock: Arc::new(Mutex::new(START)), gate, written: Arc::default() })
    }

    fn router(&self) -> Router {
        Router::new().route("/stock", get(look).put(write)).with_state(self.clone())
    }

    fn left(&self) -> u32 {
        *self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate is asked again under the mutex, where no newer request can come between. Behind a
    /// `FenceLayer` each request has a sequencer.
    fn access(
        &self,
        sequencer: Option<Extension<Sequencer>>,
    ) -> std::result::Result<MutexGuard<'_, u32>, Refused> {
        let stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Extension(sequencer)) = sequencer {
            self.gate
                .admit(&sequencer)
                .map_err(|stale| (StatusCode::PRECONDITION_FAILED, stale.to_string()))?;
        }
        Ok(stock)
    }
}

type Refused = (StatusCode, String);

async fn look(
    State(shop): State<Shop>,
    sequencer: Option<Extension<Sequencer>>,
) -> std::result::Result<String, Refused> {
    Ok(shop.access(sequencer)?.to_string())
}

async fn write(
    State(shop): State<Shop>,
    sequencer: Option<Extension<Sequencer>>,
    left: String,
) -> std::result::Result<StatusCode, Refused> {
    let left =
        left.parse().map_err(|_| (StatusCode::BAD_REQUEST, format!("{left:?} is not a number")))?;
    *shop.access(sequencer)? = left;
    shop.written.notify_one();
    Ok(StatusCode::NO_CONTENT)
}

async fn serve(router: Router) -> Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/stock", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

/// A seller, as the process that started it sees it.
struct Seller {
    process: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Seller {
    fn start(url: &str, store: &str, pause: bool) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["seller", url, store, if pause { "pause" } else { "" }])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = process.stdin.take().ok_or("no standard input")?;
        let lines = BufReader::new(process.stdout.take().ok_or("no standard output")?).lines();
        Ok(Self { process, orders, lines })
    }

    fn line(&mut self) -> Result<String> {
        let line = self.lines.next().ok_or("a seller went away")?;
        Ok(line?)
    }

    fn go_on(&mut self) -> Result<()> {
        Ok(writeln!(self.orders, "go on")?)
    }

    /// The number of pieces that the seller has sold when nothing is left, and its refused
    /// requests.
    fn sold(mut self) -> Result<(u32, Vec<String>)> {
        let mut refusals = Vec::new();
        loop {
            let line = self.line()?;
            let Some(sold) = line.strip_prefix("sold ") else {
                refusals.push(line);
                continue;
            };
            self.process.wait()?;
            return Ok((sold.parse()?, refusals));
        }
    }
}

/// The work of a seller: it reads, sells one piece, and writes the new number, until nothing is
/// left.
async fn sell(url: &str, store: &str, mut pause: bool) -> Result<()> {
    let web = Web::new(url);
    let keeper = match store {
        "" => None,
        path => {
            Some(Keeper::builder(FileStore::new(path).open().await?).ttl(LEASE).connect().await?)
        }
    };
    let mut sold = 0;
    loop {
        let guard = match &keeper {
            Some(keeper) => Some(keeper.mutex("stock")?.lock().await?),
            None => None,
        };
        let sale = sell_one(&web, guard.as_ref(), std::mem::take(&mut pause)).await?;
        if let Some(guard) = guard {
            match guard.release().await {
                // The seller that was paused for too long: the shop has refused its sale.
                Err(error) if error.kind() == ErrorKind::Lost => {}
                released => released?,
            }
        }
        match sale {
            Sale::Done => sold += 1,
            Sale::Refused(line) => println!("{line}"),
            Sale::NothingLeft => break,
        }
    }
    println!("sold {sold}");
    Ok(())
}

enum Sale {
    Done,
    Refused(String),
    NothingLeft,
}

async fn sell_one(web: &Web, guard: Option<&Guard>, pause: bool) -> Result<Sale> {
    let (status, text) = web.ask(Method::GET, guard, "").await?;
    if status != StatusCode::OK {
        return Ok(Sale::Refused(format!("{} {text}", status.as_u16())));
    }
    if pause {
        println!("looked");
        std::io::stdin().read_line(&mut String::new())?;
    }
    let left: u32 = text.parse()?;
    let Some(left) = left.checked_sub(1) else { return Ok(Sale::NothingLeft) };
    // Without a check of the guard: only the service can stop a request that is on its way when the
    // lease ends.
    let (status, text) = web.ask(Method::PUT, guard, &left.to_string()).await?;
    let done = status == StatusCode::NO_CONTENT;
    Ok(if done { Sale::Done } else { Sale::Refused(format!("{} {text}", status.as_u16())) })
}

/// A client of the shop's service.
struct Web {
    client: Client<HttpConnector, String>,
    url: String,
}

impl Web {
    fn new(url: &str) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), url: url.to_owned() }
    }

    async fn ask(
        &self,
        method: Method,
        guard: Option<&Guard>,
        body: &str,
    ) -> Result<(StatusCode, String)> {
        let mut request = Request::builder().method(method).uri(&self.url);
        if let Some(guard) = guard {
            request = request.header("Lock-Sequencer", guard.sequencer().to_string());
        }
        let answer = self.client.request(request.body(body.to_owned())?).await?;
        let status = answer.status();
        let text = String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec())?;
        Ok((status, text.trim_end().to_owned()))
    }
}
