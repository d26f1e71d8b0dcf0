//! The platform's integration tests: one binary, a file per noun. Never needs anything but `DATABASE_URL` of a server (`make test`, or `.ci/with-postgres COMMAND`).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on ends there"
)]

mod access;
mod accounts;
mod commands;
mod county;
mod devices;
mod facts;
mod gate;
mod http;
mod ingest;
mod layers;
mod openapi;
mod orders;
mod organisations;
mod partitions;
mod people;
mod postgres;
mod schema;
mod sessions;
mod staff;
mod states;
mod tls;
mod world;
