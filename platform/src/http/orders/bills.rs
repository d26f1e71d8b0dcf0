//! Bills as people see them: each line with its calculation and what it rests on, where it differs from the estimate, and our share as information. Never calculates an amount.

use axum::{Json, extract::State};
use chrono::{DateTime, NaiveDate, Utc};
use furrow_domain::{
    id::OrderId,
    money::{Bps, Fen},
    order::{Order, actor::Role, status::Phase},
    rent::Difference,
    settlement::{AreaCheck, BilledLine, Claim, DamageLine, Draft, Items, Other},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    app::{fault::Fault, orders},
    db::{
        bills::{BillRow, ObjectionRow},
        orders::Scope,
    },
    http::{
        Doors,
        body::{Body, Path},
        problem::Problem,
        session::SignedIn,
        yuan,
    },
};

/// A line of the owner's own: fuel, an agreed extra, or (below zero) a discount.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct OwnLine {
    /// What for.
    label: String,
    /// Fen; below zero it is taken off.
    amount_fen: i64,
    /// Photos and papers.
    #[serde(default)]
    evidence: Vec<Uuid>,
}

/// What an owner puts on a bill; everything else follows from what was measured, tapped or booked.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BillBody {
    /// Area by the owner's word, 1/100 mu.
    #[serde(default)]
    pub claimed_centi_mu: Option<u64>,
    /// Time by the owner's word, minutes.
    #[serde(default)]
    pub claimed_minutes: Option<u64>,
    /// The owner knows that such a claim, where it is not as measured, waits for the renter's yes.
    #[serde(default)]
    pub ask_consent: bool,
    /// Other lines.
    #[serde(default)]
    pub lines: Vec<OwnLine>,
    /// Damage, from the deposit.
    #[serde(default)]
    pub damage: Vec<OwnLine>,
}

impl BillBody {
    /// As the core takes it.
    pub fn items(self) -> Result<Items, Problem> {
        let claim = match (self.claimed_centi_mu, self.claimed_minutes) {
            (None, None) => None,
            (Some(area), None) => Some(Claim::CentiMu(area)),
            (None, Some(time)) => Some(Claim::Minutes(time)),
            (Some(_), Some(_)) => {
                let both = "either an area or a time";
                return Err(Fault::invalid("claimed_minutes", both).into());
            }
        };
        let other = |line: OwnLine| Other {
            label: line.label.trim().to_owned(),
            amount_fen: Fen(line.amount_fen),
            evidence: line.evidence,
        };
        let damage = |line: OwnLine| DamageLine {
            label: line.label.trim().to_owned(),
            amount_fen: Fen(line.amount_fen),
            evidence: line.evidence,
        };
        Ok(Items {
            claim,
            others: self.lines.into_iter().map(other).collect(),
            damage: self.damage.into_iter().map(damage).collect(),
        })
    }
}

/// A line with its calculation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct LineView {
    /// From 1: by it one says yes, or objects.
    number: u32,
    /// `rent`, `min_charge_topup`, `overtime`, `travel`, `extra`, `discount`.
    #[schema(value_type = String)]
    kind: furrow_domain::rent::LineKind,
    label: String,
    /// In the engine's unit: 1/100 mu, minutes, days, half-days.
    quantity: u64,
    #[schema(value_type = Option<String>)]
    unit: Option<furrow_domain::rent::Unit>,
    unit_price_fen: i64,
    unit_price_text: String,
    /// 10,000 is once.
    factor_bps: u32,
    local_date: Option<NaiveDate>,
    amount_fen: i64,
    amount_text: String,
    commissionable: bool,
    /// Only the renter's own yes makes it good.
    needs_consent: bool,
    /// By what it can be checked.
    #[schema(value_type = Vec<Object>)]
    evidence: Vec<furrow_domain::settlement::Evidence>,
    rule_version: u32,
    text_zh: String,
    text_en: String,
}

/// Damage, paid from the deposit and no part of the total.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct DamageView {
    label: String,
    amount_fen: i64,
    amount_text: String,
    evidence: Vec<Uuid>,
}

/// Where the bill is not what was estimated.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct DifferenceView {
    estimated_fen: i64,
    estimated_text: String,
    billed_fen: i64,
    billed_text: String,
    difference_fen: i64,
    difference_text: String,
    /// Of which lines, why, and the numbers of it.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    why: Difference,
}

/// Both areas.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct CheckView {
    measured_centi_mu: Option<u64>,
    claimed_centi_mu: Option<u64>,
    /// Lies in gaps of the track: never billed.
    missing_centi_mu: u64,
    difference_fen: i64,
    difference_text: String,
}

/// The operator's share: included, paid by the owner, never added.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ShareView {
    base_fen: i64,
    base_text: String,
    share_fen: i64,
    share_text: String,
    text_zh: String,
    text_en: String,
}

/// A bill.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct BillView {
    /// `measured`, `tapped`, `booked`, `claimed`.
    #[schema(value_type = String)]
    basis: furrow_domain::settlement::Basis,
    /// `green`, `amber`, `red`.
    #[schema(value_type = String)]
    mark: furrow_domain::settlement::Mark,
    check: Option<CheckView>,
    lines: Vec<LineView>,
    total_fen: i64,
    total_text: String,
    damage: Vec<DamageView>,
    damage_fen: i64,
    damage_text: String,
    /// What a renter agrees to who says nothing.
    unanswered_fen: i64,
    unanswered_text: String,
    needs_consent: bool,
    differences: Vec<DifferenceView>,
    share: ShareView,
    rule_id: Uuid,
    rule_version: u32,
}

impl BillView {
    /// Of a draft.
    pub fn of(draft: Draft) -> Self {
        let unanswered = draft
            .unanswered
            .as_ref()
            .map_or(draft.total_fen, |bill| bill.total_fen);
        let version = draft.rule_version;
        Self {
            basis: draft.basis,
            mark: draft.mark,
            check: draft.check.as_ref().map(CheckView::of),
            needs_consent: draft.needs_consent() || !draft.damage.is_empty(),
            share: ShareView::of(&draft),
            lines: (1..)
                .zip(draft.lines)
                .map(|(number, line)| LineView::of(number, line, version))
                .collect(),
            total_fen: draft.total_fen.0,
            total_text: yuan(draft.total_fen),
            damage: draft.damage.into_iter().map(DamageView::of).collect(),
            damage_fen: draft.damage_fen.0,
            damage_text: yuan(draft.damage_fen),
            unanswered_fen: unanswered.0,
            unanswered_text: yuan(unanswered),
            differences: draft
                .differences
                .into_iter()
                .map(DifferenceView::of)
                .collect(),
            rule_id: draft.rule_id.0,
            rule_version: version,
        }
    }
}

impl LineView {
    fn of(number: u32, billed: BilledLine, rule_version: u32) -> Self {
        let line = billed.line;
        let Bps(factor_bps) = line.factor_bps;
        Self {
            number,
            kind: line.kind,
            label: line.label,
            quantity: line.quantity,
            unit: line.unit,
            unit_price_fen: line.unit_price_fen.0,
            unit_price_text: yuan(line.unit_price_fen),
            factor_bps,
            local_date: line.local_date,
            amount_fen: line.amount_fen.0,
            amount_text: yuan(line.amount_fen),
            commissionable: line.commissionable,
            needs_consent: billed.needs_consent,
            evidence: billed.evidence,
            rule_version,
            text_zh: line.text_zh,
            text_en: line.text_en,
        }
    }
}

impl DamageView {
    fn of(line: DamageLine) -> Self {
        Self {
            label: line.label,
            amount_fen: line.amount_fen.0,
            amount_text: yuan(line.amount_fen),
            evidence: line.evidence,
        }
    }
}

impl DifferenceView {
    fn of(why: Difference) -> Self {
        let apart = Fen(why.billed_fen.0 - why.estimated_fen.0);
        Self {
            estimated_fen: why.estimated_fen.0,
            estimated_text: yuan(why.estimated_fen),
            billed_fen: why.billed_fen.0,
            billed_text: yuan(why.billed_fen),
            difference_fen: apart.0,
            difference_text: yuan(apart),
            why,
        }
    }
}

impl CheckView {
    fn of(check: &AreaCheck) -> Self {
        Self {
            measured_centi_mu: check.measured_centi_mu,
            claimed_centi_mu: check.claimed_centi_mu,
            missing_centi_mu: check.missing_centi_mu,
            difference_fen: check.difference_fen.0,
            difference_text: yuan(check.difference_fen),
        }
    }
}

impl ShareView {
    fn of(draft: &Draft) -> Self {
        Self {
            base_fen: draft.commission_base_fen.0,
            base_text: yuan(draft.commission_base_fen),
            share_fen: draft.commission_fen.0,
            share_text: yuan(draft.commission_fen),
            text_zh: "平台服务费，已含在总额中，由机主承担".into(),
            text_en: "service fee: included in the total, paid by the owner".into(),
        }
    }
}

/// A version of an order's bill.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct VersionView {
    version: i32,
    proposed_at: DateTime<Utc>,
    /// `owner` or `system`.
    proposed_as: String,
    proposed_by: Option<Uuid>,
    /// It is the one that waits for the renter.
    proposed: bool,
    #[serde(flatten)]
    bill: BillView,
}

/// What the renter said against a version.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ObjectionView {
    version: i32,
    at: DateTime<Utc>,
    text: String,
    /// Numbers of the lines; none where it is about all of it.
    lines: Vec<i32>,
}

/// All versions of an order's bill.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct BillsView {
    /// The newest first.
    versions: Vec<VersionView>,
    objections: Vec<ObjectionView>,
}

impl VersionView {
    fn of(order: &Order, row: &BillRow) -> Result<Self, Problem> {
        let newest = i64::from(order.bill_versions) == i64::from(row.version);
        Ok(Self {
            version: row.version,
            proposed_at: row.proposed_at,
            proposed_as: row.proposed_as.clone(),
            proposed_by: row.proposed_by,
            proposed: newest && order.phase == Some(Phase::BillProposed),
            bill: BillView::of(orders::draft_of(row)?),
        })
    }
}

impl From<ObjectionRow> for ObjectionView {
    fn from(row: ObjectionRow) -> Self {
        Self {
            version: row.version,
            at: row.at,
            text: row.text,
            lines: row.lines,
        }
    }
}

/// The bills of an order in a scope.
pub(in crate::http) async fn bills_of(
    doors: &Doors,
    scope: &Scope,
    id: Uuid,
) -> Result<Json<BillsView>, Problem> {
    let (order, rows, said) = orders::versions(&doors.pool, scope, OrderId(id)).await?;
    let versions: Result<Vec<_>, Problem> = rows
        .iter()
        .map(|row| VersionView::of(&order, row))
        .collect();
    Ok(Json(BillsView {
        versions: versions?,
        objections: said.into_iter().map(ObjectionView::from).collect(),
    }))
}

/// The bills of an order, every version as it was shown, with what was said against them.
#[utoipa::path(get, path = "/api/orders/{id}/bills", tag = "orders", params(("id" = Uuid, Path)), responses(
    (status = 200, description = "all versions, the newest first", body = BillsView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem)
))]
pub(in crate::http) async fn all(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
) -> Result<Json<BillsView>, Problem> {
    bills_of(&doors, &orders::scope(&who, Role::Renter), id).await
}

/// What the owner's bill would be now, before it is proposed. The command `propose_bill` takes the same.
#[utoipa::path(post, path = "/api/orders/{id}/bills/preview", tag = "orders", params(("id" = Uuid, Path)), request_body = BillBody, responses(
    (status = 200, description = "the bill", body = BillView),
    (status = 401, description = "nobody is signed in", body = Problem),
    (status = 403, description = "not the owner's side", body = Problem),
    (status = 404, description = "no such order of yours", body = Problem),
    (status = 409, description = "work has not begun", body = Problem),
    (status = 422, description = "a field", body = Problem)
))]
pub(in crate::http) async fn preview(
    State(doors): State<Doors>,
    SignedIn(who): SignedIn,
    Path(id): Path<Uuid>,
    Body(body): Body<BillBody>,
) -> Result<Json<BillView>, Problem> {
    let (items, now) = (body.items()?, doors.clock.now());
    let id = OrderId(id);
    let draft = orders::preview(&doors.pool, &*doors.witness, &who, id, &items, now).await?;
    Ok(Json(BillView::of(draft)))
}
