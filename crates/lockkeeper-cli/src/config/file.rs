//! From the text of the file to [`Config`]. Read by hand, since an error has to name the line and
//! the nearest key, and must not repeat a value, which may be a secret.

use std::fmt::Display;
use std::ops::Range;
use std::path::Path;

use lockkeeper::Secret;
use lockkeeper::url::{CommonParams, StoreUrl, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entry::{self, Source};
use super::{Address, Config, Entry};
use crate::duration;
use crate::exit::Failure;
use crate::output::shown;

const KEYS: [&str; 5] = ["default_store", "require_store", "owner", "connect_timeout", "stores"];
/// The keys of a store, beside the parameters that every URL takes.
const ENTRY_KEYS: [&str; 4] = ["url", "nodes", "password", "password_file"];

type Value<'a> = Spanned<DeValue<'a>>;

/// The configuration in the text, and whether it contains a secret.
pub(super) fn understand(path: &Path, text: &str) -> Result<(Config, bool), Failure> {
    let file = Text { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        // The error's Display would show the line.
        let problem = format!("{}. Try: KEY = \"VALUE\", each key once", error.message());
        file.wrong(error.span().unwrap_or(0..0), problem)
    })?;
    let mut config = Config { path: path.to_owned(), ..Config::default() };
    let mut has_secrets = false;
    for (key, value) in table.get_ref() {
        match &**key.get_ref() {
            "default_store" => {
                let store = file.text("default_store", value)?;
                has_secrets |= store.parse::<StoreUrl>().is_ok_and(|url| url.has_password());
                config.default_store = Some(store);
            }
            "require_store" => config.require_store = Some(file.boolean("require_store", value)?),
            "owner" => config.owner = Some(file.text("owner", value)?),
            "connect_timeout" => {
                let limit = duration::parse_timeout(&file.scalar("connect_timeout", value)?);
                let wrong = |error| file.wrong(value.span(), format!("connect_timeout: {error}"));
                config.connect_timeout = Some(limit.map_err(wrong)?);
            }
            "stores" => has_secrets |= stores(&file, value, &mut config)?,
            other => return Err(file.unknown(key.span(), other, KEYS.to_vec())),
        }
    }
    Ok((config, has_secrets))
}

/// Returns whether a store contains a secret.
fn stores(file: &Text<'_>, value: &Value<'_>, config: &mut Config) -> Result<bool, Failure> {
    let mut has_secrets = false;
    for (name, value) in file.table("stores", value)? {
        let name_text = &**name.get_ref();
        if name_text.is_empty() || name_text.contains(':') {
            return Err(file.wrong(
                name.span(),
                "the name of a store is not empty and has no colon. Try: [stores.prod]",
            ));
        }
        let mut fields = Fields::default();
        for (key, value) in file.table(&format!("stores.{name_text}"), value)? {
            fields.read(file, &key.span(), key.get_ref(), value)?;
        }
        let (entry, secret) = fields.entry(file, name.span(), name_text)?;
        has_secrets |= secret;
        config.stores.insert(name_text.to_owned(), entry);
    }
    Ok(has_secrets)
}

/// The keys of one store, in any order.
#[derive(Default)]
struct Fields {
    url: Option<(Range<usize>, StoreUrl)>,
    nodes: Option<Vec<StoreUrl>>,
    password: [Option<Source>; 2],
    params: Vec<(Range<usize>, String, String)>,
}

impl Fields {
    fn read(
        &mut self,
        file: &Text<'_>,
        at: &Range<usize>,
        key: &str,
        value: &Value<'_>,
    ) -> Result<(), Failure> {
        match key {
            "url" => self.url = Some((value.span(), file.url(value)?)),
            "nodes" => {
                let DeValue::Array(nodes) = value.get_ref() else {
                    return Err(file.wrong(
                        value.span(),
                        "nodes is not a list of URLs. Try: nodes = [\"redis://a:6379\", …]",
                    ));
                };
                self.nodes =
                    Some(nodes.iter().map(|node| file.url(node)).collect::<Result<_, _>>()?);
            }
            "password" => self.password[0] = Some(file.secret(key, value)?),
            "password_file" => self.password[1] = Some(file.secret_file(key, value)?),
            // Only the URL of a Redlock has a list of logins.
            "users" | "passwords" => {
                let remedy = format!("{key}=A,B,C in the url, in the order of the hosts");
                return Err(
                    file.wrong(at.clone(), format!("unknown key {}. Try: {remedy}", shown(key)))
                );
            }
            _ => {
                let name = key.replace('_', "-");
                if !CommonParams::NAMES.contains(&&*name) {
                    let params = CommonParams::NAMES.map(|name| name.replace('-', "_"));
                    return Err(file.unknown(
                        at.clone(),
                        key,
                        ENTRY_KEYS.into_iter().chain(params.iter().map(String::as_str)).collect(),
                    ));
                }
                self.params.push((value.span(), name, file.scalar(key, value)?));
            }
        }
        Ok(())
    }

    fn entry(
        self,
        file: &Text<'_>,
        at: Range<usize>,
        name: &str,
    ) -> Result<(Entry, bool), Failure> {
        let twice = |what: &str| {
            file.wrong(at.clone(), format!("stores.{name} has {what}. Try: one of them"))
        };
        let in_url =
            |has: fn(&StoreUrl) -> bool| self.url.as_ref().is_some_and(|(_, url)| has(url));
        let passwords = self.password.iter().flatten().count();
        if passwords + usize::from(in_url(|url| url.password.is_some())) > 1 {
            return Err(twice("its password in two places"));
        }
        let mut has_secrets = in_url(StoreUrl::has_password);
        let address = match (self.url, self.nodes) {
            (Some(_), Some(_)) => return Err(twice("both url and nodes")),
            (None, None) => {
                return Err(
                    file.wrong(at, format!("stores.{name} has no url. Try: url = \"file:/PATH\""))
                );
            }
            (None, Some(nodes)) => {
                has_secrets |= nodes.iter().any(StoreUrl::has_password);
                Address::Nodes
            }
            (Some((_, mut url)), None) => {
                for (at, param, value) in self.params {
                    let key = param.replace('-', "_");
                    let wrong = |error| file.wrong(at, format!("stores.{name}.{key}: {error}"));
                    url = url.or_set(&param, &value).map_err(wrong)?;
                }
                Address::Url(Box::new(url))
            }
        };
        let password = self.password.into_iter().flatten().next();
        let entry = Entry { location: file.location(&at), address, password };
        has_secrets |= entry.has_secrets();
        Ok((entry, has_secrets))
    }
}

/// The text, and the error for a bad entry.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    /// File and line.
    fn location(&self, at: &Range<usize>) -> String {
        let before = self.text.as_bytes().iter().take(at.start);
        format!("{}:{}", self.path.display(), before.filter(|byte| **byte == b'\n').count() + 1)
    }

    fn wrong(&self, at: Range<usize>, problem: impl Display) -> Failure {
        let problem = problem.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Failure::config(format!("{}: {problem}", self.location(&at)))
    }

    fn unknown(&self, at: Range<usize>, key: &str, valid: Vec<&str>) -> Failure {
        let remedy = match nearest(key, valid.iter().copied()) {
            Some(meant) => meant.to_owned(),
            None => format!("one of {}", valid.join(", ")),
        };
        self.wrong(at, format!("unknown key {}. Try: {remedy}", shown(key)))
    }

    fn text(&self, key: &str, value: &Value<'_>) -> Result<String, Failure> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| {
            self.wrong(value.span(), format!("{key} is not a text. Try: {key} = \"…\""))
        })
    }

    fn secret(&self, key: &str, value: &Value<'_>) -> Result<Source, Failure> {
        Ok(Source::Text(Secret::new(self.text(key, value)?)))
    }

    fn secret_file(&self, key: &str, value: &Value<'_>) -> Result<Source, Failure> {
        let home = std::env::var("HOME").ok();
        Ok(Source::File(entry::path(&self.text(key, value)?, self.path, home.as_deref())))
    }

    /// A text, or a number as it was written.
    fn scalar(&self, key: &str, value: &Value<'_>) -> Result<String, Failure> {
        match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            _ => self.text(key, value),
        }
    }

    fn boolean(&self, key: &str, value: &Value<'_>) -> Result<bool, Failure> {
        let boolean = value.get_ref().as_bool();
        boolean.ok_or_else(|| {
            self.wrong(value.span(), format!("{key} is neither true nor false. Try: {key} = true"))
        })
    }

    fn table<'v, 't>(&self, key: &str, value: &'v Value<'t>) -> Result<&'v DeTable<'t>, Failure> {
        let example = if key == "stores" { "[stores]" } else { "{ url = \"…\" }" };
        let table = value.get_ref().as_table();
        table.ok_or_else(|| {
            self.wrong(value.span(), format!("{key} is not a table. Try: {example}"))
        })
    }

    fn url(&self, value: &Value<'_>) -> Result<StoreUrl, Failure> {
        entry::url(&self.text("url", value)?).map_err(|error| self.wrong(value.span(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let failure = understand(Path::new("c.toml"), text).unwrap_err();
        assert_eq!(failure.exit, crate::exit::Exit::Config);
        assert!(
            !failure.message.contains("hunter2") && !failure.message.contains('\n'),
            "{failure:?}"
        );
        failure.message
    }

    #[test]
    fn everything_of_the_manual_is_understood() {
        let text = r#"
            default_store = "prod"
            require_store = true
            owner = "ci@runner-7"
            connect_timeout = "2s"
            [stores]
            prod = { url = "redis+sentinel://s1:26379,s2:26379/mymaster?epoch=4", password_file = "redis", prefix = "billing/", ttl = "20s", epoch = 5 }
            quorum = { nodes = ["rediss://a:6379", "redis://b:6379", "rediss://c:6380"] }
            [stores.local]
            url = "file:/var/lib/x.db"
            max_waiters = 7
            ttl = 9
            unsafe = "permissions"
        "#;
        let (config, has_secrets) =
            understand(Path::new("/etc/lockkeeper/config.toml"), text).unwrap();
        assert!(!has_secrets);
        assert_eq!(
            (config.default_store.as_deref(), config.require_store),
            (Some("prod"), Some(true))
        );
        assert_eq!(config.owner.as_deref(), Some("ci@runner-7"));
        let url = |name: &str| match &config.stores[name].address {
            Address::Url(url) => url.to_string(),
            Address::Nodes => "nodes".to_owned(),
        };
        // The settings in the URL itself count before the rest of the entry.
        assert_eq!(
            url("prod"),
            "redis+sentinel://s1:26379,s2:26379/mymaster?prefix=billing/&epoch=4&ttl=20s"
        );
        assert_eq!(url("quorum"), "nodes");
        assert_eq!(url("local"), "file:/var/lib/x.db?ttl=9s&max-waiters=7&unsafe=permissions");
        assert!(
            matches!(&config.stores["prod"].password, Some(Source::File(path)) if path == Path::new("/etc/lockkeeper/redis"))
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        for (text, message) in [
            ("\ndefault_stor = 1", "c.toml:2: unknown key \"default_stor\". Try: default_store"),
            (
                "colour = 1",
                "c.toml:1: unknown key \"colour\". Try: one of default_store, require_store, owner, connect_timeout, stores",
            ),
            (
                "[stores]\na = { url = \"memory:\",\n pasword_file = \"x\" }",
                "c.toml:3: unknown key \"pasword_file\". Try: password_file",
            ),
            ("[stores.a]\nurl = \"memory:\"\n\ntll = 5", "c.toml:4: unknown key \"tll\". Try: ttl"),
            (
                "[stores.a]\nurl = \"redlock://a,b,c\"\npasswords = \"x,y,z\"",
                "c.toml:3: unknown key \"passwords\". Try: passwords=A,B,C in the url, in the order of the hosts",
            ),
            (
                "[stores.a]\nmax_waitesr = 5",
                "c.toml:2: unknown key \"max_waitesr\". Try: max_waiters",
            ),
            (
                "[stores.a]\nurl = \"memory:?tll=5\"",
                "c.toml:2: \"tll\" is not a parameter of memory: URLs. Try: ttl=",
            ),
        ] {
            assert_eq!(refused(text), message);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_value() {
        for text in [
            "password = hunter2",
            "password = 'hunter2",
            "owner = \"hunter2\" \"x\"",
            "default_store = [\"hunter2\"]",
            "require_store = \"hunter2\"",
            "connect_timeout = [\"hunter2\"]",
            "stores = \"hunter2\"",
            "stores.a = \"redis://:hunter2@h\"",
            "stores.a = { }",
            "stores.a = { password = \"hunter2\" }",
            "stores.\"a:b\" = { url = \"memory:\" }",
            "stores.a = { url = \"redis://:hunter2\" }",
            "stores.a = { url = \"hunter2\" }",
            "stores.a = { url = \"memory:\", password = [\"hunter2\"] }",
            "stores.a = { url = \"memory:\", ttl = \"hunter2\" }",
            "stores.a = { url = \"memory:\", ttl = 0 }",
            "stores.a = { url = \"memory:\", nodes = [\"redis://h\"] }",
            "stores.a = { nodes = \"redis://:hunter2@h\" }",
            "stores.a = { url = \"redis://:hunter2@h\", password_file = \"x\" }",
            "stores.a = { url = \"redis://h\", password = \"hunter2\", password_file = \"x\" }",
            "stores.a = { url = \"redis://h\", api_token = \"hunter2\" }",
            "a = 1\na = \"hunter2\"",
        ] {
            assert!(refused(text).starts_with("c.toml:"), "{text}");
        }
    }
}
