//! Commands as clients write them, turned into the core's. Nothing that a client must not say can be said here.

use axum::http::StatusCode;
use chrono::{DateTime, NaiveDate, Utc};
use furrow_domain::{
    id::{MachineId, OrderId, ProposalId},
    money::Fen,
    order::command::{Command, DisputeCategory, NoFault, Proposed, RulingAmounts, Shares},
};
use serde::Deserialize;
use uuid::Uuid;

use super::{OrderView, bills::BillBody, run};
use crate::{
    app::{fault::Fault, orders, who::Who},
    http::{Doors, machines::period, problem::Problem},
    ids,
};

/// What a dispute is about.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Category {
    DidNotArrive,
    Late,
    Area,
    Hours,
    Quality,
    Damage,
    NotReturned,
    Payment,
    Start,
    Other,
}

/// What one side proposes.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub(in crate::http) enum ProposalBody {
    /// End it, nobody's fault.
    Mutual,
    /// End it for the weather.
    Weather { place: String, date: NaiveDate },
    /// End it, the machine broke.
    Breakdown,
    /// A later end.
    Extend { end: DateTime<Utc> },
    /// Another time; another machine of the owner.
    Reschedule {
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        #[serde(default)]
        meet_at: Option<DateTime<Utc>>,
        #[serde(default)]
        work_end: Option<DateTime<Utc>>,
        #[serde(default)]
        machine_id: Option<Uuid>,
    },
}

/// A command.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", tag = "command", deny_unknown_fields)]
pub(in crate::http) enum CommandBody {
    /// The owner takes the order; with the version that was seen, it is only that one.
    Accept {
        #[serde(default)]
        version: Option<u32>,
    },
    Reject {
        reason: String,
    },
    /// The renter ends it; with the fee that was shown, once it is accepted.
    Cancel {
        #[serde(default)]
        fee_fen: Option<i64>,
    },
    /// The owner ends it, with the penalty that was shown.
    OwnerCancel {
        reason: String,
        penalty_fen: i64,
    },
    AskReconfirm,
    Reconfirm,
    Propose {
        proposal: ProposalBody,
    },
    Answer {
        proposal_id: Uuid,
        agree: bool,
    },
    /// The machine is on its way.
    Depart,
    /// Work begins. With the renter's start code it is the renter's tap, typed in the field.
    Start {
        #[serde(default)]
        photo: bool,
        #[serde(default)]
        start_code: Option<String>,
        /// Staff starts it against the track, and why.
        #[serde(default)]
        override_reason: Option<String>,
        /// When it was tapped, for a phone without a network.
        #[serde(default)]
        acted_at: Option<DateTime<Utc>>,
    },
    ClaimNoShow,
    ContestClaim,
    Finish {
        #[serde(default)]
        reason: Option<String>,
        /// When it was tapped, for a phone without a network.
        #[serde(default)]
        acted_at: Option<DateTime<Utc>>,
    },
    UndoFinish,
    Pause {
        reason: String,
        /// When it was tapped, for a phone without a network.
        #[serde(default)]
        acted_at: Option<DateTime<Utc>>,
    },
    Resume {
        /// When it was tapped, for a phone without a network.
        #[serde(default)]
        acted_at: Option<DateTime<Utc>>,
    },
    RequestReturn,
    /// The owner's bill: what was measured, tapped or booked, with what he puts beside it.
    ProposeBill {
        #[serde(default)]
        bill: BillBody,
    },
    /// The renter objects, to all of it or to some lines by their numbers.
    ObjectBill {
        text: String,
        #[serde(default)]
        lines: Vec<u32>,
    },
    /// The renter confirms the version that was shown, and says yes to each line that needs it.
    ConfirmBill {
        version: u32,
        #[serde(default)]
        consents: Vec<u32>,
    },
    BalanceFromDeposit,
    Dispute {
        category: Category,
        text: String,
    },
    Withdraw,
    AcceptRuling,
    Appeal,
    /// One side of a dispute offers to end it so; the parts sum to all that is held.
    Offer {
        rent_fen: i64,
        damage_fen: i64,
        refund_fen: i64,
    },
    /// The other side takes the offer that it saw.
    AcceptOffer {
        rent_fen: i64,
        damage_fen: i64,
        refund_fen: i64,
    },
    /// Staff decides; the parts sum to all that is held. Above 5,000 yuan it counts when a second one has
    /// decided the same.
    Rule {
        rent_fen: i64,
        commission_fen: i64,
        damage_fen: i64,
        refund_fen: i64,
        reason: String,
    },
    /// Staff: nothing was done.
    Void {
        fee_fen: i64,
        reason: String,
    },
    ForceCancel {
        fee_fen: i64,
        reason: String,
    },
    WaiveFee {
        amount_fen: i64,
        reason: String,
    },
}

/// Carries a command out.
pub(in crate::http) async fn carry_out(
    doors: &Doors,
    who: &Who,
    id: OrderId,
    staff: bool,
    body: CommandBody,
) -> Result<(StatusCode, OrderView), Problem> {
    if let CommandBody::Start {
        start_code: Some(code),
        photo,
        ..
    } = &body
    {
        return with_code(doors, who, id, code, *photo).await;
    }
    let body = match of_bill(doors, who, (id, staff), body).await? {
        Ok(done) => return Ok((StatusCode::OK, OrderView::done(done, doors.clock.now()))),
        Err(other) => other,
    };
    let command = to_command(body, doors.clock.now())?;
    run(doors, who, id, staff, &command).await
}

/// Commands on bills, which are more than the core must know; the others come back.
async fn of_bill(
    doors: &Doors,
    who: &Who,
    of: (OrderId, bool),
    body: CommandBody,
) -> Result<Result<orders::Done, CommandBody>, Problem> {
    let (pool, witness, now) = (&doors.pool, &*doors.witness, doors.clock.now());
    Ok(Ok(match body {
        CommandBody::ProposeBill { bill } => {
            let ask = bill.ask_consent;
            let items = bill.items()?;
            orders::propose(pool, witness, who, of, (&items, ask), now).await?
        }
        CommandBody::ObjectBill { text, lines } => {
            orders::object(pool, witness, who, of, (&text, &lines), now).await?
        }
        CommandBody::ConfirmBill { version, consents } => {
            orders::confirm(pool, witness, who, of, (version, &consents), now).await?
        }
        other => return Ok(Err(other)),
    }))
}

/// The renter's code, typed by the owner's side in the field: both taps at once.
async fn with_code(
    doors: &Doors,
    who: &Who,
    id: OrderId,
    code: &str,
    photo: bool,
) -> Result<(StatusCode, OrderView), Problem> {
    let now = doors.clock.now();
    let done =
        orders::start_by_code(&doors.pool, &*doors.witness, who, id, code, photo, now).await?;
    Ok((StatusCode::OK, OrderView::done(done, now)))
}

fn category(of: Category) -> DisputeCategory {
    match of {
        Category::DidNotArrive => DisputeCategory::DidNotArrive,
        Category::Late => DisputeCategory::Late,
        Category::Area => DisputeCategory::Area,
        Category::Hours => DisputeCategory::Hours,
        Category::Quality => DisputeCategory::Quality,
        Category::Damage => DisputeCategory::Damage,
        Category::NotReturned => DisputeCategory::NotReturned,
        Category::Payment => DisputeCategory::Payment,
        Category::Start => DisputeCategory::Start,
        Category::Other => DisputeCategory::Other,
    }
}

fn proposed(of: ProposalBody) -> Result<Proposed, Problem> {
    Ok(match of {
        ProposalBody::Mutual => Proposed::NoFault(NoFault::Mutual),
        ProposalBody::Weather { place, date } => {
            Proposed::NoFault(NoFault::Weather { place, date })
        }
        ProposalBody::Breakdown => Proposed::NoFault(NoFault::Breakdown { proven: false }),
        ProposalBody::Extend { end } => Proposed::Extend { end },
        ProposalBody::Reschedule {
            from,
            to,
            meet_at,
            work_end,
            machine_id,
        } => Proposed::Reschedule {
            period: period(from, to)?,
            start: meet_at.unwrap_or(from),
            end: work_end.unwrap_or(to),
            machine: machine_id.map(MachineId),
        },
    })
}

/// An amount within all bounds.
fn fen(field: &str, amount: i64) -> Result<Fen, Problem> {
    if (0..=Fen::MAX.0).contains(&amount) {
        Ok(Fen(amount))
    } else {
        Err(Fault::invalid(field, "must lie between 0 and 10^12").into())
    }
}

fn shares(rent: i64, damage: i64, refund: i64) -> Result<Shares, Problem> {
    Ok(Shares {
        rent_fen: fen("rent_fen", rent)?,
        damage_fen: fen("damage_fen", damage)?,
        refund_fen: fen("refund_fen", refund)?,
    })
}

/// The core's command.
#[expect(clippy::too_many_lines, reason = "one arm a command")]
fn to_command(body: CommandBody, now: DateTime<Utc>) -> Result<Command, Problem> {
    Ok(match body {
        CommandBody::Accept { version } => Command::Accept {
            seen_version: version,
        },
        CommandBody::Reject { reason } => Command::Reject { reason },
        CommandBody::Cancel { fee_fen } => Command::Cancel {
            shown_fee_fen: fee_fen.map(Fen),
        },
        CommandBody::OwnerCancel {
            reason,
            penalty_fen,
        } => Command::OwnerCancel {
            reason,
            shown_penalty_fen: fen("penalty_fen", penalty_fen)?,
        },
        CommandBody::AskReconfirm => Command::AskReconfirm,
        CommandBody::Reconfirm => Command::Reconfirm,
        CommandBody::Propose { proposal } => Command::Propose {
            id: ProposalId(ids::new_id(now)),
            proposed: proposed(proposal)?,
        },
        CommandBody::Answer { proposal_id, agree } => Command::Answer {
            id: ProposalId(proposal_id),
            agree,
        },
        CommandBody::Depart => Command::Depart,
        CommandBody::Start {
            photo,
            override_reason,
            acted_at,
            ..
        } => Command::Start {
            photo,
            override_reason,
            acted_at,
        },
        CommandBody::ClaimNoShow => Command::ClaimNoShow,
        CommandBody::ContestClaim => Command::ContestClaim,
        CommandBody::Finish { reason, acted_at } => Command::Finish { reason, acted_at },
        CommandBody::UndoFinish => Command::UndoFinish,
        CommandBody::Pause { reason, acted_at } => Command::Pause { reason, acted_at },
        CommandBody::Resume { acted_at } => Command::Resume { acted_at },
        CommandBody::RequestReturn => Command::RequestReturn,
        CommandBody::ProposeBill { .. } => {
            return Err(Fault::invalid("command", "is of a bill").into());
        }
        CommandBody::ObjectBill { text, .. } => Command::ObjectBill { text },
        CommandBody::ConfirmBill { version, .. } => Command::ConfirmBill { version },
        CommandBody::BalanceFromDeposit => Command::BalanceFromDeposit,
        CommandBody::Dispute { category: of, text } => Command::Dispute {
            category: category(of),
            text,
        },
        CommandBody::Withdraw => Command::Withdraw,
        CommandBody::AcceptRuling => Command::AcceptRuling,
        CommandBody::Appeal => Command::Appeal,
        CommandBody::Offer {
            rent_fen,
            damage_fen,
            refund_fen,
        } => Command::Offer {
            shares: shares(rent_fen, damage_fen, refund_fen)?,
        },
        CommandBody::AcceptOffer {
            rent_fen,
            damage_fen,
            refund_fen,
        } => Command::AcceptOffer {
            shares: shares(rent_fen, damage_fen, refund_fen)?,
        },
        CommandBody::Rule {
            rent_fen,
            commission_fen,
            damage_fen,
            refund_fen,
            reason,
        } => Command::Rule {
            amounts: RulingAmounts {
                rent_fen: fen("rent_fen", rent_fen)?,
                commission_fen: fen("commission_fen", commission_fen)?,
                damage_fen: fen("damage_fen", damage_fen)?,
                refund_fen: fen("refund_fen", refund_fen)?,
            },
            reason,
            // A name is no consent: the second one comes himself.
            approver: None,
        },
        CommandBody::Void { fee_fen, reason } => Command::Void {
            fee_fen: fen("fee_fen", fee_fen)?,
            reason,
            // A name is no consent: the second one comes himself.
            approver: None,
        },
        CommandBody::ForceCancel { fee_fen, reason } => Command::ForceCancel {
            fee_fen: fen("fee_fen", fee_fen)?,
            reason,
        },
        CommandBody::WaiveFee { amount_fen, reason } => Command::WaiveFee {
            amount_fen: fen("amount_fen", amount_fen)?,
            reason,
        },
    })
}
