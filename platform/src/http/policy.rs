//! Who may come in by which route: each route names its policy beside its path, the API's description shows it, and one guard enforces it. A route without a policy is closed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderValue, Method, header::ALLOW},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use utoipa::openapi::{
    Content, OpenApi, Ref, RefOr, ResponseBuilder, SecurityRequirement,
    extensions::Extensions,
    path::{Operation, PathItem},
    security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::router::UtoipaMethodRouter;

use super::{Doors, limits, problem, serve::Peer, session, trace};
use crate::app::who::{Origin, Who};

/// Where an operation of the description says its policy.
const EXTENSION: &str = "x-furrow-policy";
/// The name of the access token's scheme in the description.
const BEARER: &str = "access_token";

/// Who may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// Everybody.
    Public,
    /// Whoever is signed in; what is shown is his own.
    Account,
    /// Whoever runs an organisation, as its owner or manager.
    Owner,
    /// Staff with this permission. There is nothing here for everybody else.
    Staff(&'static str),
}

impl Policy {
    fn told(self) -> Value {
        match self {
            Self::Public => json!({ "who": "everybody" }),
            Self::Account => json!({ "who": "account" }),
            Self::Owner => json!({ "who": "owner" }),
            Self::Staff(permission) => json!({ "who": "staff", "permission": permission }),
        }
    }

    fn admits(self, who: &Who) -> bool {
        match self {
            Self::Public | Self::Account => true,
            Self::Owner => !who.runs().is_empty(),
            Self::Staff(permission) => who.may(permission),
        }
    }
}

/// The policies of all routes, as they were registered.
#[derive(Debug, Clone, Default)]
pub(super) struct Policies(BTreeMap<String, Vec<(Method, Policy)>>);

impl Policies {
    /// Registers the operations of one path under one policy, and writes it into their description.
    pub fn of(
        &mut self,
        policy: Policy,
        mut routes: UtoipaMethodRouter<Doors>,
    ) -> UtoipaMethodRouter<Doors> {
        for (path, item) in &mut routes.1.paths {
            let known = self.0.entry(path.clone()).or_default();
            for (method, operation) in operations(item) {
                describe(operation, policy);
                known.push((method, policy));
            }
        }
        routes
    }

    fn find(&self, path: &str, method: &Method) -> Option<Policy> {
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let known = self.0.get(path)?;
        known.iter().find(|(m, _)| m == method).map(|(_, p)| *p)
    }

    fn allowed(&self, path: &str) -> Option<HeaderValue> {
        let known: BTreeSet<&str> = self.0.get(path)?.iter().map(|(m, _)| m.as_str()).collect();
        let names: Vec<&str> = known.into_iter().collect();
        HeaderValue::from_str(&names.join(",")).ok()
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, item.get.as_mut()),
        (Method::PUT, item.put.as_mut()),
        (Method::POST, item.post.as_mut()),
        (Method::DELETE, item.delete.as_mut()),
        (Method::PATCH, item.patch.as_mut()),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation?)))
}

/// Writes down who may, and what a refusal of any kind looks like.
fn describe(operation: &mut Operation, policy: Policy) {
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert(EXTENSION.into(), policy.told());
    if policy != Policy::Public {
        let none: [&str; 0] = [];
        operation.security = Some(vec![SecurityRequirement::new(BEARER, none)]);
    }
    for response in operation.responses.responses.values_mut() {
        let RefOr::T(response) = response else {
            continue;
        };
        let problem = |content: &RefOr<Content>| match content {
            RefOr::T(content) => {
                matches!(&content.schema, Some(RefOr::Ref(of)) if of.ref_location.ends_with("/Problem"))
            }
            RefOr::Ref(_) => false,
        };
        if response
            .content
            .get("application/json")
            .is_some_and(problem)
            && let Some(content) = response.content.shift_remove("application/json")
        {
            let kind = "application/problem+json".to_owned();
            response.content.insert(kind, content);
        }
    }
    let any = ResponseBuilder::new()
        .description("refused, or it did not go well: a body that is no JSON, too often, the database is away")
        .content(
            "application/problem+json",
            Content::new(Some(Ref::from_schema_name("Problem"))),
        )
        .build();
    operation
        .responses
        .responses
        .insert("default".into(), RefOr::T(any));
}

/// Adds how one shows an access token to a description.
pub(super) fn describe_security(api: &mut OpenApi) {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some("From sign-in, for 15 minutes."))
        .build();
    let components = api.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
}

/// What the guard needs.
#[derive(Clone)]
pub(super) struct Guard {
    /// Of all routes.
    pub policies: Arc<Policies>,
    /// To look somebody up.
    pub doors: Doors,
}

/// Lets in whom the route's policy names; handlers find who it is in the request.
pub(super) async fn guard(
    State(Guard { policies, doors }): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or_else(String::new, |path| path.as_str().to_owned());
    let Some(policy) = policies.find(&path, request.method()) else {
        return closed(&policies, &path).await;
    };
    let origin = origin(&doors, &request);
    if policy != Policy::Public {
        let who = match session::who(&doors, request.headers(), &origin).await {
            Ok(who) => who,
            Err(problem) => return problem.into_response(),
        };
        if !doors.paces.goes(who.account.0, &doors) {
            return limits::too_many(60).into_response();
        }
        if !policy.admits(&who) {
            return problem::not_found().await.into_response();
        }
        request.extensions_mut().insert(who);
    }
    request.extensions_mut().insert(origin);
    next.run(request).await
}

async fn closed(policies: &Policies, path: &str) -> Response {
    let Some(allowed) = policies.allowed(path) else {
        tracing::error!(route = path, "http.no_policy");
        return problem::not_found().await.into_response();
    };
    let mut answer = problem::method_not_allowed().await.into_response();
    answer.headers_mut().insert(ALLOW, allowed);
    answer
}

fn origin(doors: &Doors, request: &Request) -> Origin {
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let address = |ConnectInfo(peer): &ConnectInfo<Peer>| {
        limits::address(peer.0.ip(), request.headers(), &doors.proxies)
    };
    Origin {
        trace_id: trace::current(),
        address: peer.map(address),
    }
}
