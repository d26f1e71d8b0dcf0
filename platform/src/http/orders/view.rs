//! An order as people see it: amounts with their texts, the next deadline, what waits for whom. Never calculates a rule.

use chrono::{DateTime, Utc};
use furrow_domain::order::{
    Offer, Order, Proposal, ProposedBill, StartEvidence,
    status::{CancelReason, Phase, Status, TimeoutKind},
};
use serde::Serialize;
use uuid::Uuid;

use crate::{app::orders::Done, db::orders::EventRow, http::yuan};

/// An order.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct OrderView {
    pub id: Uuid,
    order_no: String,
    renter_id: Uuid,
    organisation_id: Uuid,
    machine_id: Uuid,
    #[schema(value_type = String)]
    status: Status,
    #[schema(value_type = Option<String>)]
    phase: Option<Phase>,
    #[schema(value_type = Option<String>)]
    cancel_reason: Option<CancelReason>,
    #[schema(value_type = Option<String>)]
    timeout_kind: Option<TimeoutKind>,
    version: u32,
    /// Grows with each change of time.
    epoch: u32,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    meet_at: DateTime<Utc>,
    work_end: DateTime<Utc>,
    created_at: DateTime<Utc>,
    pay_deadline: DateTime<Utc>,
    accept_deadline: Option<DateTime<Utc>>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    closed_at: Option<DateTime<Utc>>,
    sealed_at: Option<DateTime<Utc>>,
    #[schema(value_type = Option<String>)]
    start_evidence: Option<StartEvidence>,
    estimate_fen: i64,
    estimate_text: String,
    prepaid_fen: i64,
    prepaid_text: String,
    deposit_fen: i64,
    deposit_text: String,
    balance_fen: i64,
    balance_text: String,
    fee_fen: i64,
    fee_text: String,
    refunds_fen: i64,
    refunds_text: String,
    /// What waits for the other side.
    #[schema(value_type = Option<Object>)]
    proposal: Option<Proposal>,
    /// What is proposed to be paid.
    #[schema(value_type = Option<Object>)]
    bill: Option<ProposedBill>,
    /// How one side of a dispute would end it.
    #[schema(value_type = Option<Object>)]
    offer: Option<Offer>,
    /// A command that had been carried out before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    already_applied: bool,
    /// The server's time: deadlines count from it, never from the client's.
    now: DateTime<Utc>,
}

impl OrderView {
    /// Of an order as it is.
    pub fn of(order: &Order, order_no: String, now: DateTime<Utc>) -> Self {
        let (terms, funds) = (&order.terms, &order.funds);
        let waits = order.status == Status::PendingAcceptance;
        let deadline = order.paid_at.filter(|_| waits);
        Self {
            id: order.id.0,
            order_no,
            renter_id: order.renter.0,
            organisation_id: order.organisation.0,
            machine_id: order.machine.0,
            status: order.status,
            phase: order.phase,
            cancel_reason: order.cancel_reason,
            timeout_kind: order.timeout_kind,
            version: order.version,
            epoch: order.epoch,
            from: order.period.from(),
            to: order.period.to(),
            meet_at: order.start,
            work_end: order.end,
            created_at: order.created_at,
            pay_deadline: order.pay_deadline,
            accept_deadline: deadline.map(|paid| terms.accept_deadline(paid, order.start)),
            started_at: order.started_at,
            finished_at: order.finished_at,
            closed_at: order.closed_at,
            sealed_at: order.sealed_at,
            start_evidence: order.start_evidence,
            estimate_fen: terms.estimate_fen.0,
            estimate_text: yuan(terms.estimate_fen),
            prepaid_fen: terms.prepaid_fen.0,
            prepaid_text: yuan(terms.prepaid_fen),
            deposit_fen: terms.deposit_fen.0,
            deposit_text: yuan(terms.deposit_fen),
            balance_fen: order.balance_fen.0,
            balance_text: yuan(order.balance_fen),
            fee_fen: funds.fee.0,
            fee_text: yuan(funds.fee),
            refunds_fen: funds.refunds.0,
            refunds_text: yuan(funds.refunds),
            proposal: order.proposal.clone(),
            bill: order.bill,
            offer: order.offer,
            already_applied: false,
            now,
        }
    }

    /// Of what came of a command.
    pub fn done(done: Done, now: DateTime<Utc>) -> Self {
        Self {
            already_applied: done.already,
            ..Self::of(&done.order, done.order_no, now)
        }
    }
}

/// A step that was taken.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct EventView {
    seq: i32,
    at: DateTime<Utc>,
    transition: String,
    from_status: String,
    to_status: String,
    actor_role: String,
    actor_id: Option<Uuid>,
    reason: Option<String>,
    trace_id: String,
}

impl From<EventRow> for EventView {
    fn from(row: EventRow) -> Self {
        Self {
            seq: row.seq,
            at: row.at,
            transition: row.transition,
            from_status: row.from_status,
            to_status: row.to_status,
            actor_role: row.actor_role,
            actor_id: row.actor_id,
            reason: row.reason,
            trace_id: row.trace_id,
        }
    }
}
