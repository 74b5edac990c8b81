//! The order of bytes is the order of sends.

use redis::Value;

use crate::peer::{Peer, echo, patient, within};

#[tokio::test]
async fn a_request_has_its_place_when_send_returns_polled_or_not() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let second = {
        let _first = link.send(echo("1").posted());
        link.send(echo("2"))
    };
    let third = link.send(echo("3"));
    let fourth = link.send(echo("4").posted());
    for number in ["1", "2", "3", "4"] {
        assert_eq!(remote.request().await, ["ECHO", number]);
    }
    remote.say(":1\r\n:2\r\n:3\r\n:4\r\n").await;
    assert_eq!(within(fourth).await, Ok(Value::Int(4)));
    assert_eq!(within(second).await, Ok(Value::Int(2)));
    assert_eq!(within(third).await, Ok(Value::Int(3)));
}

#[tokio::test]
async fn a_posted_request_and_the_next_one_go_in_one_write() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let before = link.writes();
    let posted = link.send(echo("posted").posted());
    assert_eq!(link.writes(), before, "it is not written in place");
    let awaited = link.send(echo("awaited"));
    assert_eq!(remote.request().await, ["ECHO", "posted"]);
    assert_eq!(remote.request().await, ["ECHO", "awaited"]);
    remote.say(":1\r\n:2\r\n").await;
    assert_eq!(
        (within(posted).await, within(awaited).await),
        (Ok(Value::Int(1)), Ok(Value::Int(2)))
    );
    assert_eq!(link.writes(), before + 1);
}

#[tokio::test]
async fn a_posted_request_that_nobody_follows_is_written_by_the_driver() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    drop(link.send(echo("alone").posted()));
    assert_eq!(remote.request().await, ["ECHO", "alone"]);
}

#[tokio::test]
async fn what_is_sent_while_an_answer_is_awaited_is_written_together() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let before = link.writes();
    let answers: Vec<_> = (0..100).map(|number| link.send(echo(&number.to_string()))).collect();
    for number in 0..100 {
        assert_eq!(remote.request().await[1], number.to_string());
        remote.say(&format!(":{number}\r\n")).await;
    }
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(within(answer).await, Ok(Value::Int(i64::try_from(number).unwrap())));
    }
    assert_eq!(link.writes(), before + 2, "the first in place, and the rest by the driver");
}

#[tokio::test]
async fn nobody_comes_between_requests_that_are_sent_together() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let link = link.clone();
            std::thread::spawn(move || {
                for number in 0..200 {
                    let text = format!("{task}.{number}");
                    drop(link.send_all([echo(&text), echo(&text)]));
                    drop(link.send(echo("alone").posted()));
                }
            })
        })
        .collect();
    let mut pairs = 0;
    while pairs < 8 * 200 {
        let first = remote.request().await;
        if first[1] != "alone" {
            assert_eq!(remote.request().await, first);
            pairs += 1;
        }
    }
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sender_gets_its_own_answers_in_its_own_order() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let answering = tokio::spawn(async move {
        let mut last = [0; 8];
        for _ in 0..8 * 300 {
            let request = remote.request().await;
            let number: usize = request[1].parse().unwrap();
            let (task, at) = (number / 1000, number % 1000);
            assert_eq!(at, last[task] + 1, "task {task}");
            last[task] = at;
            remote.say(&format!(":{number}\r\n")).await;
        }
    });
    let tasks = (0..8).map(|task| {
        let link = link.clone();
        tokio::spawn(async move {
            let mut posted = Vec::new();
            for at in 1..=300 {
                let number = task * 1000 + at;
                let request = echo(&number.to_string());
                match at % 3 {
                    0 => assert_eq!(within(link.send(request)).await, Ok(Value::Int(number))),
                    1 => posted.push((number, link.send(request.posted()))),
                    _ => posted.push((number, link.send(request))),
                }
            }
            for (number, answer) in posted {
                assert_eq!(within(answer).await, Ok(Value::Int(number)));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    answering.await.unwrap();
}

#[tokio::test]
async fn a_dropped_answer_takes_its_reply_along_and_no_other() {
    let peer = Peer::new().await;
    let (link, mut remote, _received) = peer.link(patient()).await;
    let mut forgotten = Box::pin(link.send(echo("forgotten")));
    assert!(futures_are_pending(forgotten.as_mut()).await);
    drop(forgotten);
    let kept = link.send(echo("kept"));
    assert_eq!(remote.request().await[1], "forgotten");
    assert_eq!(remote.request().await[1], "kept");
    remote.say(":1\r\n:2\r\n").await;
    assert_eq!(within(kept).await, Ok(Value::Int(2)));
}

async fn futures_are_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}
