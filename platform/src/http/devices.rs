//! Enrolment of devices.

use axum::{
    Json,
    extract::{ConnectInfo, State, rejection::JsonRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};

use super::{Doors, problem::Problem, serve::Peer};
use crate::app::devices::{self, EnrolRequest, unhex};

/// What a box sends.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EnrolBody {
    /// The one-time code, `XXXX-XXXX-XXXX-XXXX`.
    code: String,
    /// Ed25519 public key, 64 hex digits.
    public_key: String,
    /// By that key over `furrow enrol v1`, the code's 16 characters and the key; 128 hex digits.
    signature: String,
}

/// What it gets.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct EnrolAnswer {
    /// Its number.
    device: u32,
    /// Its token for doors without client certificates, 64 hex digits.
    token: String,
    /// Its client certificate.
    certificate_pem: String,
    /// The platform's authority.
    ca_pem: String,
    /// SHA-256 of that certificate.
    ca_sha256: String,
    /// Where to connect.
    mqtt_url: String,
}

/// Takes a device in by its one-time code.
#[utoipa::path(post, path = "/api/devices/enrol", request_body = EnrolBody, responses(
    (status = 201, description = "enrolled", body = EnrolAnswer),
    (status = 400, description = "not JSON", body = Problem),
    (status = 404, description = "no such code", body = Problem),
    (status = 409, description = "the key is enrolled already", body = Problem),
    (status = 422, description = "a field, the key or the signature is bad", body = Problem),
    (status = 429, description = "too many wrong codes", body = Problem),
    (status = 503, description = "the database is away", body = Problem)
))]
pub(super) async fn enrol(
    State(doors): State<Doors>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    body: Result<Json<EnrolBody>, JsonRejection>,
) -> Result<(StatusCode, Json<EnrolAnswer>), Problem> {
    let Json(body) = body
        .map_err(|rejection| Problem::new(rejection.status(), "bad_body", rejection.body_text()))?;
    let field = |name| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "bad_field",
            format!("{name} has not the right number of hex digits"),
        )
    };
    let request = EnrolRequest {
        public_key: unhex(body.public_key.as_bytes()).ok_or_else(|| field("public_key"))?,
        signature: unhex(body.signature.as_bytes()).ok_or_else(|| field("signature"))?,
        code: body.code,
    };
    let enrolled = devices::enrol(
        &doors.pool,
        &doors.authority,
        &request,
        peer.ip(),
        doors.clock.now(),
    )
    .await?;
    let answer = EnrolAnswer {
        device: enrolled.device,
        token: enrolled.token,
        certificate_pem: enrolled.certificate_pem,
        ca_pem: doors.authority.certificate_pem().to_owned(),
        ca_sha256: doors.authority.fingerprint(),
        mqtt_url: doors.mqtt_url.clone(),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}
