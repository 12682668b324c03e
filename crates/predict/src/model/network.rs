//! Hosts with a queue out and a queue in, of frames.
//!
//! `send` cuts a message into frames of `frame_bytes`; each takes its bytes at the sender's rate out, the latency, and its
//! bytes at the receiver's rate in. The queue out takes messages one after the other, so its times follow at once; the
//! queue in is [`Inbound`]. A lone message of `b` bytes at equal rates takes `b · μ + f · μ`. Messages within a host have a
//! pair of queues of their own: the published model sends them through the card's, where they would wait for what other
//! hosts send, which no kernel does.

use intarsia_des::{Span, Time};

use super::inbound::{Inbound, Train};
use crate::as_float;
use crate::profile::Profile;

const NANOS: f64 = 1e9;

/// The queues of one host in one network: the card or the loopback.
#[derive(Debug, Default)]
struct Card {
    out_nanos_per_byte: f64,
    in_nanos_per_byte: f64,
    /// When all that is to be sent has left.
    out_free: f64,
    inbound: Inbound,
    out_busy: f64,
    in_busy: f64,
    /// When it sent or took in, from and to; kept only where somebody asks.
    spans: Vec<(f64, f64)>,
}

/// All cards.
#[derive(Debug)]
pub(super) struct Network {
    cards: Vec<Card>,
    loopbacks: Vec<Card>,
    frame_bytes: u64,
    latency: f64,
    keeps_spans: bool,
    sent: u64,
    pub(super) remote_bytes: u64,
    pub(super) loopback_bytes: u64,
}

/// A message on its way; the receiver asks with it when all of it is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    number: u64,
    last: f64,
    /// What the receiver takes for it.
    service: f64,
}

impl Network {
    pub(super) fn new(profile: &Profile, hosts: u32) -> Self {
        let card = |number: u32| {
            let host = profile.host(number);
            Card {
                out_nanos_per_byte: NANOS / host.out_bytes_per_second,
                in_nanos_per_byte: NANOS / host.in_bytes_per_second,
                ..Card::default()
            }
        };
        let nanos = NANOS / profile.network.loopback_bytes_per_second;
        let loopback =
            |_| Card { out_nanos_per_byte: nanos, in_nanos_per_byte: nanos, ..Card::default() };
        Self {
            cards: (0..hosts).map(card).collect(),
            loopbacks: (0..hosts).map(loopback).collect(),
            frame_bytes: profile.network.frame_bytes,
            latency: profile.network.latency_seconds * NANOS,
            keeps_spans: profile.host.power.is_some(),
            sent: 0,
            remote_bytes: 0,
            loopback_bytes: 0,
        }
    }

    /// A message leaves. Gives when its last frame arrives, which is when [`received`](Self::received) must be asked.
    pub(super) fn send(&mut self, from: u32, to: u32, bytes: u64, now: Time) -> (Flight, Time) {
        let is_local = from == to;
        let latency = if is_local { 0.0 } else { self.latency };
        let cards = if is_local { &mut self.loopbacks } else { &mut self.cards };
        *if is_local { &mut self.loopback_bytes } else { &mut self.remote_bytes } += bytes;
        let number = self.sent;
        self.sent += 1;
        let (frames, rest) = cut(bytes, self.frame_bytes);
        let full = if frames == 1 { rest } else { as_float(self.frame_bytes) };
        let sender = &mut cards[from as usize];
        let out = sender.out_nanos_per_byte;
        let start = sender.out_free.max(as_float(now.as_nanos()));
        let took = as_float(bytes) * out;
        sender.out_free = start + took;
        sender.out_busy += took;
        if self.keeps_spans {
            sender.spans.push((start, start + took));
        }
        let last = start + took + latency;
        let receiver = &mut cards[to as usize];
        let service = receiver.in_nanos_per_byte;
        receiver.in_busy += as_float(bytes) * service;
        receiver.inbound.expect(Train {
            number,
            first: start + full * out + latency,
            step: full * out,
            last,
            frames,
            service: full * service,
            last_service: rest * service,
            done: 0,
        });
        (Flight { number, last, service: as_float(bytes) * service }, time(last))
    }

    /// The last frame is there. Gives when the host has taken in all of it.
    pub(super) fn received(&mut self, from: u32, to: u32, flight: Flight) -> Time {
        let cards = if from == to { &mut self.loopbacks } else { &mut self.cards };
        let card = &mut cards[to as usize];
        let end = card.inbound.served(flight.number, flight.last);
        if self.keeps_spans {
            card.spans.push((end - flight.service, end));
        }
        time(end)
    }

    /// Counts a message that goes another way than through the queues here, and its time at both cards.
    pub(super) fn passes_by(&mut self, from: u32, to: u32, bytes: u64) {
        self.remote_bytes += bytes;
        let (sender, receiver) = (from as usize, to as usize);
        self.cards[sender].out_busy += as_float(bytes) * self.cards[sender].out_nanos_per_byte;
        self.cards[receiver].in_busy += as_float(bytes) * self.cards[receiver].in_nanos_per_byte;
    }

    /// How long the card of a host sent and received.
    pub(super) fn busy(&self, host: u32) -> (Span, Span) {
        let card = &self.cards[host as usize];
        let span = |nanos: f64| Span::from_secs_f64(nanos / NANOS);
        (span(card.out_busy), span(card.in_busy))
    }

    /// How long it did one or both of these, if that was kept.
    pub(super) fn either_way_busy(&self, host: u32) -> Span {
        Span::from_secs_f64(covered(self.cards[host as usize].spans.clone()) / NANOS)
    }
}

/// How much of the line these spans cover.
fn covered(mut spans: Vec<(f64, f64)>) -> f64 {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut until) = (0.0, 0.0_f64);
    for (start, end) in spans {
        sum += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    sum
}

/// How many frames, and the length of the last one. A message without bytes is one frame without any.
fn cut(bytes: u64, frame_bytes: u64) -> (u64, f64) {
    let frames = bytes.div_ceil(frame_bytes).max(1);
    (frames, as_float(bytes - (frames - 1) * frame_bytes))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn time(nanos: f64) -> Time {
    Time::from_nanos(nanos.round() as u64)
}
