//! What a notice says, in both languages, made from its kind and data. Never reads anything else.

use serde_json::Value;

/// Chinese and English of each kind; `{no}` is the order's number.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "pay_countdown",
        "订单 {no} 已为您预留时间，请在期限内付款。",
        "Order {no} holds the time for you: pay before the deadline.",
    ),
    (
        "payment_received",
        "订单 {no} 付款已收到，等待机主接单。",
        "Payment for order {no} has come; the owner is asked.",
    ),
    (
        "payment_returned",
        "订单 {no} 收到一笔逾期或重复的付款，将原路退回。",
        "A late or second payment for order {no} came and goes back.",
    ),
    (
        "order_booked",
        "新订单 {no} 已付款并自动接单，请准备农机和配件。",
        "New order {no} is paid and taken: prepare machine and parts.",
    ),
    (
        "order_requested",
        "新订单 {no}，请在期限内接单或拒绝。",
        "New order {no}: accept or reject it before the deadline.",
    ),
    (
        "accepted",
        "订单 {no} 已被接受，开工码：{start_code}",
        "Order {no} is accepted. Start code: {start_code}",
    ),
    (
        "rejected",
        "订单 {no} 被机主拒绝，款项全额退回。",
        "Order {no} was rejected; everything is refunded.",
    ),
    (
        "cancelled",
        "订单 {no} 已取消。",
        "Order {no} is cancelled.",
    ),
    (
        "timed_out",
        "订单 {no} 超时关闭。",
        "Order {no} was closed: its time ran out.",
    ),
    (
        "accept_reminder",
        "订单 {no} 即将超时，请尽快处理。",
        "Order {no} waits for your answer.",
    ),
    (
        "start_reminder",
        "订单 {no} 即将开始作业。",
        "Work of order {no} begins soon.",
    ),
    (
        "reconfirm_asked",
        "请再次确认订单 {no}。",
        "Please confirm order {no} once more.",
    ),
    (
        "device_silent",
        "订单 {no} 的农机终端没有信号，请检查。",
        "The device of order {no} says nothing: please check it.",
    ),
    (
        "machine_departed",
        "订单 {no} 的农机已出发。",
        "The machine of order {no} is on its way.",
    ),
    (
        "no_show_possible",
        "订单 {no} 已过开工时间，如对方未到可申报。",
        "Order {no} is past its start: a no-show can be claimed.",
    ),
    (
        "no_show_claimed",
        "订单 {no}：对方申报您未到场，请及时回应。",
        "Order {no}: the other side says you did not come. Please answer.",
    ),
    (
        "start_asked",
        "订单 {no}：对方已确认开工，请您确认。",
        "Order {no}: the other side says work begins. Please confirm.",
    ),
    (
        "started",
        "订单 {no} 已开工，开始计量。",
        "Work of order {no} has begun; metering is on.",
    ),
    (
        "end_reminder",
        "订单 {no} 还有 30 分钟结束。",
        "Order {no} ends in 30 minutes.",
    ),
    (
        "overtime_running",
        "订单 {no} 已超出预订时间，开始计算超时。",
        "Order {no} is past its end: overtime runs.",
    ),
    (
        "pause_changed",
        "订单 {no} 的计时已暂停或恢复。",
        "The clock of order {no} was paused or resumed.",
    ),
    (
        "return_requested",
        "订单 {no}：承租人申请归还。",
        "Order {no}: the renter gives the machine back.",
    ),
    (
        "finish_asked",
        "订单 {no}：承租人申报完工，请确认。",
        "Order {no}: the renter says it is finished. Please confirm.",
    ),
    (
        "finished",
        "订单 {no} 已完工，等待账单。",
        "Order {no} is finished; the bill follows.",
    ),
    (
        "proposed",
        "订单 {no}：对方提出变更，请在 24 小时内答复。",
        "Order {no}: the other side proposes a change. Answer within 24 hours.",
    ),
    (
        "proposal_answered",
        "订单 {no}：变更提议已被答复。",
        "Order {no}: the proposal was answered.",
    ),
    (
        "changed",
        "订单 {no} 的时间或农机已变更。",
        "Time or machine of order {no} has changed.",
    ),
    (
        "bill_ready",
        "订单 {no} 的账单已出，请核对。",
        "The bill of order {no} is ready.",
    ),
    (
        "bill_objected",
        "订单 {no} 的账单被提出异议。",
        "The bill of order {no} was objected to.",
    ),
    (
        "balance_due",
        "订单 {no} 有尾款待付。",
        "A balance of order {no} is due.",
    ),
    ("completed", "订单 {no} 已结算。", "Order {no} is settled."),
    (
        "dispute_opened",
        "订单 {no} 进入纠纷处理。",
        "A dispute about order {no} was opened.",
    ),
    (
        "dispute_withdrawn",
        "订单 {no} 的纠纷已撤回。",
        "The dispute about order {no} was withdrawn.",
    ),
    (
        "dispute_decided",
        "订单 {no} 的纠纷已裁决。",
        "The dispute about order {no} was decided.",
    ),
    (
        "fee_waived",
        "订单 {no} 的费用已减免。",
        "A fee of order {no} was waived.",
    ),
];

/// The texts of a notice.
#[must_use]
pub fn of(kind: &str, data: &Value) -> (String, String) {
    let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
    let filled = |template: &str| {
        template
            .replace("{no}", text("order_no"))
            .replace("{start_code}", text("start_code"))
    };
    TEXTS.iter().find(|(known, ..)| *known == kind).map_or_else(
        || (kind.to_owned(), kind.to_owned()),
        |(_, zh, en)| (filled(zh), filled(en)),
    )
}

/// Whether a kind has its texts.
#[must_use]
pub fn knows(kind: &str) -> bool {
    TEXTS.iter().any(|(known, ..)| *known == kind)
}
