//! The README promises commands and settings: each of them must exist.

use std::{fs, process::Command};

use e2e::{binaries, program};

use crate::world::folder;

fn readme() -> String {
    fs::read_to_string(binaries::checkout().join("README.md")).unwrap()
}

/// What stands between backticks or in blocks of the README and begins with `program`.
fn calls(readme: &str, program: &str) -> Vec<Vec<String>> {
    let quoted = readme.split('`').skip(1).step_by(2);
    let blocks = readme.lines().filter(|l| l.starts_with(program));
    quoted
        .chain(blocks)
        .filter_map(|text| text.strip_prefix(program)?.strip_prefix(' '))
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// The words of a call that name a command: `device enroll-code` of `device enroll-code --width M`.
fn command(call: &[String]) -> Vec<&str> {
    let name =
        |w: &&String| w.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !w.starts_with('-');
    call.iter().take_while(name).map(String::as_str).collect()
}

#[test]
fn every_make_target_of_the_readme_exists() {
    let readme = readme();
    let makefile = fs::read_to_string(binaries::checkout().join("Makefile")).unwrap();
    let mut seen = 0;
    for call in calls(&readme, "make") {
        let Some(target) = call.iter().find(|w| !w.contains('=')) else {
            continue;
        };
        assert!(
            makefile
                .lines()
                .any(|l| l.starts_with(&format!("{target}:"))),
            "README names `make {target}`, the Makefile does not"
        );
        seen += 1;
    }
    assert!(seen >= 2, "the README names no targets");
}

#[test]
fn every_command_of_the_readme_exists_with_its_options() {
    let readme = readme();
    let programs = [("furrow", binaries::furrow().unwrap())];
    let mut seen = 0;
    for (name, path) in programs {
        for call in calls(&readme, name) {
            let words = command(&call);
            if words.is_empty() {
                continue;
            }
            let mut help = Command::new(&path);
            help.args(&words).arg("--help");
            let said = program::run(help)
                .unwrap_or_else(|e| panic!("README names `{name} {}`: {e:#}", words.join(" ")));
            let options = call.iter().map(|w| w.trim_matches(['[', ']', '…', ',']));
            for option in options.filter(|w| w.starts_with("--")) {
                assert!(
                    said.contains(option),
                    "`{name} {}` has no {option}",
                    words.join(" ")
                );
            }
            seen += 1;
        }
    }
    assert!(seen >= 5, "the README names no commands");
}

#[test]
fn the_settings_of_the_readme_are_settings() {
    let readme = readme();
    let block = readme
        .split("```toml")
        .nth(1)
        .and_then(|b| b.split("```").next())
        .unwrap();
    // Commented lines are settings too; `…` stands for what everybody fills in.
    let text: String = block
        .lines()
        .map(|l| {
            l.strip_prefix("# ")
                .filter(|l| l.contains(" = "))
                .unwrap_or(l)
        })
        .map(|l| l.replace("\"postgres://…\"", "\"postgres://furrow@db/furrow\""))
        .map(|l| l.replace("\"…\"", &format!("\"{}\"", "ab".repeat(32))) + "\n")
        .collect();
    let folder = folder();
    let file = folder.path().join("furrow.toml");
    // The database of the example does not exist: what is refused must be that, and no key.
    fs::write(&file, text.replace("@db/", "@127.0.0.1:1/")).unwrap();
    let mut check = Command::new(binaries::furrow().unwrap());
    check.arg("--config").arg(&file).arg("check");
    let said = format!("{:#}", program::run(check).unwrap_err());
    assert!(said.contains("settings    ok"), "{said}");
}
