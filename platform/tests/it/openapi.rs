//! The API's description is the committed one.

use std::path::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

#[test]
#[expect(clippy::disallowed_methods, reason = "tests have no settings")]
fn the_committed_description_is_what_the_routes_say() {
    let told = furrow_platform::http::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("FURROW_WRITE_OPENAPI").is_some() {
        std::fs::write(FILE, &told).unwrap();
    }
    let committed = std::fs::read_to_string(Path::new(FILE)).unwrap_or_default();
    assert!(
        committed == told,
        "platform/openapi.json does not fit the routes: run `make openapi` and commit it"
    );
}

#[test]
fn every_operation_says_what_a_problem_looks_like() {
    let told = serde_json::to_value(furrow_platform::http::openapi()).unwrap();
    assert!(told["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, operations) in told["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let problem = response.to_string().contains("Problem");
                let bad = status.starts_with(['4', '5']) && path != "/readyz";
                assert!(!bad || problem, "{method} {path}: {status} is no problem");
            }
        }
    }
}
