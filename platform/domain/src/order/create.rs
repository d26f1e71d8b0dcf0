//! T01: what a booking must be, and the order that it becomes.

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    Order, Taps,
    decision::Decision,
    effect::{NoticeKind, Recipient, TimerKind},
    entry::Funds,
    refusal::Refusal,
    status::Status,
    terms::Terms,
};
use crate::{
    id::{AccountId, MachineId, OrderId, OrganisationId},
    money::Fen,
    period::Period,
};

/// The shortest slot.
pub const SHORTEST: TimeDelta = TimeDelta::minutes(30);
/// The longest booking.
pub const LONGEST: TimeDelta = TimeDelta::days(200);
/// How far ahead a booking may end: a provider refunds for one year.
pub const FARTHEST: TimeDelta = TimeDelta::days(300);
/// Most plots of an order.
pub const MOST_PLOTS: usize = 20;

/// A booking that is asked for.
#[derive(Debug, Clone)]
pub struct Booking {
    /// Its id, made by the shell.
    pub id: OrderId,
    /// Who rents.
    pub renter: AccountId,
    /// Organisations that the renter belongs to.
    pub renter_organisations: Vec<OrganisationId>,
    /// Whose the machine is.
    pub organisation: OrganisationId,
    /// The machine.
    pub machine: MachineId,
    /// The slot.
    pub period: Period,
    /// When one meets.
    pub start: DateTime<Utc>,
    /// When work ends.
    pub end: DateTime<Utc>,
    /// Plots, or places with a declared area.
    pub plots: usize,
    /// Staff books for the renter.
    pub on_behalf: bool,
    /// What it freezes.
    pub terms: Terms,
    /// Unpaid holds of the renter.
    pub unpaid_holds: u32,
    /// The renter may make orders: not blocked, and no arrears.
    pub renter_may_order: bool,
    /// The machine is listed, its owner verified, it is not in repair.
    pub machine_usable: bool,
}

/// Whether a time may be booked at all, whoever asks. The guard of T01 and T18.
///
/// # Errors
///
/// `in_past`, `too_late` (it begins sooner than `lead`), `invalid`.
pub fn check_range(
    period: &Period,
    start: DateTime<Utc>,
    end: DateTime<Utc>,
    lead: TimeDelta,
    now: DateTime<Utc>,
) -> Result<(), Refusal> {
    let invalid = |message| Refusal::Invalid {
        field: "period",
        message,
    };
    if period.from() < now || start < now {
        return Err(Refusal::InPast);
    }
    if start < now + lead {
        return Err(Refusal::TooLate(start - lead));
    }
    if period.length() < SHORTEST {
        return Err(invalid("is shorter than 30 minutes"));
    }
    if period.length() > LONGEST {
        return Err(invalid("is longer than 200 days"));
    }
    if period.to() > now + FARTHEST {
        return Err(invalid("ends more than 300 days from now"));
    }
    if !(period.from() <= start && start < end && end <= period.to()) {
        return Err(invalid("meeting and end of work lie within it"));
    }
    Ok(())
}

/// T01: the order of a booking. One that costs nothing is paid at once by whoever applies it.
///
/// # Errors
///
/// [`Refusal`].
pub fn create(booking: Booking, now: DateTime<Utc>) -> Result<Decision, Refusal> {
    if booking.renter_organisations.contains(&booking.organisation) {
        return Err(Refusal::SelfDealing);
    }
    if !booking.renter_may_order {
        return Err(Refusal::Forbidden("order"));
    }
    if !booking.machine_usable {
        return Err(Refusal::MachineUnavailable);
    }
    let terms = &booking.terms;
    if booking.unpaid_holds >= terms.policy.unpaid_holds {
        return Err(Refusal::TooOften(terms.policy.unpaid_holds));
    }
    if !(1..=MOST_PLOTS).contains(&booking.plots) {
        return Err(Refusal::Invalid {
            field: "plots",
            message: "must be 1 to 20",
        });
    }
    let lead = terms.policy.min_lead(terms.auto_accept);
    check_range(&booking.period, booking.start, booking.end, lead, now)?;
    let order = order(booking, now);
    let mut decision = Decision::of(&order, "T01");
    decision.order.version = 1;
    let expires = order.terms.hold_expires_at(order.pay_deadline);
    Ok(decision
        .plan(TimerKind::J1, expires)
        .plan(TimerKind::J3, order.terms.cutoff(order.start))
        .tell(Recipient::Renter, NoticeKind::PayCountdown))
}

fn order(booking: Booking, now: DateTime<Utc>) -> Order {
    let pay_deadline = booking
        .terms
        .pay_deadline(now, booking.start, booking.on_behalf);
    Order {
        id: booking.id,
        renter: booking.renter,
        organisation: booking.organisation,
        machine: booking.machine,
        status: Status::PendingPayment,
        version: 0,
        epoch: 1,
        period: booking.period,
        start: booking.start,
        end: booking.end,
        created_at: now,
        pay_deadline,
        on_behalf: booking.on_behalf,
        terms: booking.terms,
        paid_at: None,
        accepted_at: None,
        started_at: None,
        finished_at: None,
        finish_told_at: None,
        closed_at: None,
        sealed_at: None,
        phase: None,
        cancel_reason: None,
        timeout_kind: None,
        dispute_from: None,
        funds: Funds::default(),
        reconfirm: None,
        renter_acted_at: Some(now),
        go_at: None,
        departed_at: None,
        proposal: None,
        claim: None,
        taps: Taps::default(),
        start_evidence: None,
        pauses: vec![],
        return_requested_at: None,
        finish_asked_at: None,
        reschedules: 0,
        bill: None,
        bill_versions: 0,
        objections: 0,
        balance_fen: Fen::ZERO,
        balance_due_at: None,
        disputes: vec![],
        offer: None,
        ruling: None,
        ruled_at: None,
    }
}
