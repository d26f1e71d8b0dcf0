//! Who may name what: the rooms of the platform and the crates of the workspace. Reads the sources, not the intentions.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What may be named only in some rooms (paths from `platform/src`), and the rule in words.
const ONLY_IN: &[(&[&str], &[&str], &str)] = &[
    (
        &["sqlx::"],
        &["db/"],
        "db/ is the only room that knows SQL: take a db::Pool, call a function of db",
    ),
    (
        &[
            "axum::",
            "utoipa::",
            "utoipa_axum::",
            "utoipa_swagger_ui::",
            "hyper::",
            "hyper_util::",
            "tower::",
            "StatusCode",
        ],
        &["http/"],
        "http/ is the only room that knows axum, status codes and OpenAPI",
    ),
    (
        &["rumqttc::", "rumqttd::", "furrow_protocol::"],
        &["mqtt/", "ingest/", "demo/", "app/devices.rs"],
        "mqtt/ and ingest/ are the only rooms that know MQTT and the wire format; app/devices.rs asks it which keys may sign",
    ),
    (
        &["std::env", "env::var", "env!(\"FURROW"],
        &["config.rs"],
        "config.rs is the only room that reads the environment",
    ),
    (
        &["Utc::now", "SystemTime::now", "Local::now"],
        &["clock.rs"],
        "clock.rs is the only room that reads the clock: take a Clock, or the time itself",
    ),
    (
        &["anyhow::", "process::exit"],
        &["main.rs", "commands/", "platform", "demo/"],
        "anyhow and exits are for the command line and the wiring; elsewhere errors have names",
    ),
    (
        &[
            "rand::",
            "getrandom::",
            "Uuid::now_v7",
            "Uuid::new_v7",
            "Uuid::new_v4",
        ],
        &["ids.rs", "ingest/check.rs"],
        "ids.rs is the only room that makes ids and random values",
    ),
    (
        &["rcgen::"],
        &["app/authority.rs"],
        "app/authority.rs is the only room that makes certificates",
    ),
];

/// Which rooms a room may name (`crate::ROOM`). What is not listed here may be named by all: clock,
/// config, ids. The wiring (main, platform, commands, demo) may name every room and is named by none.
const ARROWS: &[(&str, &[&str])] = &[
    ("http", &["app", "db", "views"]),
    ("mqtt", &["app", "db", "ingest"]),
    ("ingest", &["app", "db"]),
    ("jobs", &["app", "db", "ingest", "notify", "views"]),
    ("app", &["db", "pay", "notify"]),
    ("views", &[]),
    ("db", &[]),
    ("pay", &[]),
    ("notify", &[]),
    ("postgres", &[]),
    ("telemetry", &[]),
    ("clock", &[]),
    ("config", &[]),
    ("ids", &[]),
];
const FOR_ALL: &[&str] = &["clock", "config", "ids"];
const WIRING: &[&str] = &["main", "lib", "platform", "commands", "demo"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// All sources under a folder, with their path from it.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The code of a source without its comments, its texts and its unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every path that a source uses, with nested `use a::{b, c::{d, e}}` written out.
fn used_paths(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for statement in code.split("use ").skip(1) {
        let tree: String = statement
            .split(';')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        write_out("", &tree, &mut all);
    }
    all
}

fn write_out(prefix: &str, tree: &str, all: &mut Vec<String>) {
    let (mut depth, mut start) = (0_u32, 0);
    let mut branches = Vec::new();
    for (at, sign) in tree.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                branches.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&tree[start..]);
    for branch in branches.into_iter().filter(|b| !b.is_empty()) {
        match branch.split_once('{') {
            Some((path, inner)) => {
                let inner = inner.strip_suffix('}').unwrap_or(inner);
                write_out(&format!("{prefix}{path}"), inner, all);
            }
            None => all.push(format!("{prefix}{branch}")),
        }
    }
}

/// Whether a path begins at `what`, and not in the middle of a longer name.
fn names(code: &str, what: &str) -> bool {
    code.match_indices(what).any(|(at, _)| {
        !code[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn what_belongs_to_one_room_is_named_there_only() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&root().join("src")) {
        let code = code(&text);
        let whole = format!("{code}\n{}", used_paths(&code).join("\n"));
        for (things, rooms, rule) in ONLY_IN {
            if rooms.iter().any(|room| file.starts_with(room)) {
                continue;
            }
            for thing in things.iter().filter(|thing| names(&whole, thing)) {
                wrong.push(format!("{file} names {thing}: {rule}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_name_only_the_rooms_below_them() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&root().join("src")) {
        let room = file.split(['/', '.']).next().unwrap_or_default();
        if WIRING.contains(&room) {
            continue;
        }
        let Some((_, below)) = ARROWS.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!(
                "{file}: the room {room} is not in the table of layers.rs"
            ));
            continue;
        };
        for other in rooms_named(&code(&text)) {
            let fine = other == room || FOR_ALL.contains(&&*other) || below.contains(&&*other);
            if !fine {
                wrong.push(format!(
                    "{file} names {other}: {room} may name {below:?} only"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn rooms_named(code: &str) -> Vec<String> {
    let whole = format!("{code}\n{}", used_paths(code).join("\n"));
    let mut rooms: Vec<String> = whole
        .split("crate::")
        .skip(1)
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        })
        .filter(|room: &String| !room.is_empty())
        .collect();
    rooms.sort();
    rooms.dedup();
    rooms
}

#[test]
fn the_core_does_no_io_and_reads_no_clock() {
    let banned = [
        "std::fs",
        "std::net",
        "std::io",
        "std::env",
        "std::thread",
        "std::time",
        "tokio::",
        "async fn",
        "Utc::now",
        "sqlx::",
        "axum::",
        "rand::",
        "tracing::",
    ];
    for (file, text) in sources(&root().join("domain/src")) {
        let code = code(&text);
        let whole = format!("{code}\n{}", used_paths(&code).join("\n"));
        let named = banned.iter().find(|thing| names(&whole, thing));
        assert_eq!(named, None, "domain/src/{file}: the core is pure");
    }
}

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    let allowed: BTreeMap<&str, &[&str]> = [
        ("protocol", &[][..]),
        ("agent", &["furrow-protocol"]),
        ("platform", &["furrow-protocol", "furrow-domain"]),
        ("platform/domain", &[]),
        ("tests", &["furrow-protocol"]),
    ]
    .into();
    for (folder, may) in allowed {
        let manifest = root().join("..").join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let named = manifest.get(section).and_then(toml::Value::as_table);
            for name in named.into_iter().flat_map(|table| table.keys()) {
                let ours = name.starts_with("furrow-") || name == "e2e";
                assert!(
                    !ours || may.contains(&&**name),
                    "{folder} depends on {name}"
                );
            }
        }
    }
}

#[test]
fn every_file_says_first_what_it_is_and_none_is_a_cupboard() {
    let mut wrong = Vec::new();
    for (folder, files) in
        ["src", "domain/src", "tests/it"].map(|folder| (folder, sources(&root().join(folder))))
    {
        for (file, text) in files {
            let lines = text.lines().count();
            if !text.starts_with("//! ") {
                wrong.push(format!(
                    "{folder}/{file}: the first line says what the file is"
                ));
            }
            if lines > 600 {
                wrong.push(format!(
                    "{folder}/{file}: {lines} lines; beyond 600 a noun becomes a folder"
                ));
            }
            let cupboard = ["utils", "common", "helpers", "services", "models"]
                .iter()
                .any(|name| file.split(['/', '.']).any(|part| part == *name));
            if cupboard {
                wrong.push(format!("{folder}/{file}: a name that says nothing"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scan_sees_what_is_nested_and_not_what_is_only_told() {
    let source = "use std::{\n    fs,\n    env::{self, args},\n};\n// sqlx::query\nuse crate::{db::{self, Pool}, http};\n";
    let paths = used_paths(&code(source));
    for path in [
        "std::fs",
        "std::env::self",
        "std::env::args",
        "crate::db::Pool",
        "crate::http",
    ] {
        assert!(paths.contains(&path.to_owned()), "{path}: {paths:?}");
    }
    assert_eq!(rooms_named(&code(source)), ["db", "http"]);
    assert!(!names(&code(source), "sqlx::"));
    assert!(!names("fast_rand::x", "rand::"));
    assert!(names("(rand::x", "rand::"));
}
