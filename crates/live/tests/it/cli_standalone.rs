//! The manual of the program, on a Redis: the same tests as on the file store.
#![allow(clippy::duplicate_mod, reason = "the same tests on several stores")]

#[path = "../../../lockkeeper-cli/tests/it/break_lock.rs"]
mod break_lock;
#[path = "../../../lockkeeper-cli/tests/it/contention.rs"]
mod contention;
#[path = "../../../lockkeeper-cli/tests/it/elect.rs"]
mod elect;
#[path = "../../../lockkeeper-cli/tests/it/events.rs"]
mod events;
#[path = "../../../lockkeeper-cli/tests/it/holding.rs"]
mod holding;
#[path = "../../../lockkeeper-cli/tests/it/inspect_list.rs"]
mod inspect_list;
#[path = "../../../lockkeeper-cli/tests/it/loss.rs"]
mod loss;
#[path = "../../../lockkeeper-cli/tests/it/modes.rs"]
mod modes;
#[path = "../../../lockkeeper-cli/tests/it/request.rs"]
mod request;
#[path = "../../../lockkeeper-cli/tests/it/rounds.rs"]
mod rounds;
#[path = "../../../lockkeeper-cli/tests/it/rules.rs"]
mod rules;
#[path = "../../../lockkeeper-cli/tests/it/several.rs"]
mod several;
#[path = "../../../lockkeeper-cli/tests/it/signals.rs"]
mod signals;
#[path = "../../../lockkeeper-cli/tests/it/waiting.rs"]
mod waiting;
#[path = "../../../lockkeeper-cli/tests/it/watch.rs"]
mod watch;
