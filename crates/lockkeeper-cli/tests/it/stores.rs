//! Settings that come with the URL of the store.

use crate::support::{Store, events, program, stderr};

#[test]
fn the_url_sets_what_no_flag_sets() {
    let store = Store::new();
    let url = format!("{}?ttl=7s&prefix=url/", store.url());
    let acquired = |args: &[&str]| {
        let output =
            program().args(["-S", &url, "run", "a", "--json"]).args(args).args(["--", "true"]).output().unwrap();
        events(&stderr(&output)).into_iter().find(|event| event["event"] == "acquired").unwrap()
    };
    let event = acquired(&[]);
    assert_eq!(event["ttl_ms"], 7000);
    assert!(event["sequencer"].as_str().unwrap().ends_with(".url%2Fa"));
    let event = acquired(&["-t", "9s", "--prefix", "flag/"]);
    assert_eq!(event["ttl_ms"], 9000);
    assert!(event["sequencer"].as_str().unwrap().ends_with(".flag%2Fa"));
}
