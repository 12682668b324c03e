//! Connections that have not proven the key yet: few of them, and fewer of one address.
//!
//! Whoever comes is let in at once. When there are too many, the one that has waited longest has to go: first among
//! those of the same address, then among those of the address that has most. A peer proves the key within
//! milliseconds, a stranger never, so that it is strangers who go, however many connect and however long they stay.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Who is in there.
#[derive(Debug)]
pub(crate) struct Lobby {
    most: usize,
    most_of_one: usize,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    next: u64,
    /// In the order of arrival.
    waiting: VecDeque<Guest>,
}

#[derive(Debug)]
struct Guest {
    number: u64,
    address: IpAddr,
    _has_to_go: oneshot::Sender<()>,
}

/// The place of one connection, given up when this goes.
#[derive(Debug)]
pub(crate) struct Place {
    lobby: Arc<Lobby>,
    number: u64,
    has_to_go: oneshot::Receiver<()>,
}

impl Lobby {
    /// At most `most` connections, of which at most `most_of_one` are of one address.
    pub(crate) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, guests: Mutex::default() })
    }

    /// Takes in a connection from `address`; another one may have to go for it.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Place {
        let (sender, has_to_go) = oneshot::channel();
        let mut guests = self.guests.lock();
        let of_one = guests.waiting.iter().filter(|guest| guest.address == address).count();
        if of_one >= self.most_of_one {
            guests.remove_oldest_of(address);
        } else if guests.waiting.len() >= self.most
            && let Some(busiest) = guests.busiest()
        {
            guests.remove_oldest_of(busiest);
        }
        let number = guests.next;
        guests.next += 1;
        guests.waiting.push_back(Guest { number, address, _has_to_go: sender });
        Place { lobby: Arc::clone(self), number, has_to_go }
    }
}

impl Guests {
    /// The address with most connections.
    fn busiest(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for guest in &self.waiting {
            *counts.entry(guest.address).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
    }

    fn remove_oldest_of(&mut self, address: IpAddr) {
        let at = self.waiting.iter().position(|guest| guest.address == address);
        // Its end of the channel goes with it, which is how the connection learns.
        drop(at.and_then(|at| self.waiting.remove(at)));
    }
}

impl Place {
    /// Returns when the connection has to make way for another one.
    pub(crate) async fn is_taken(&mut self) {
        let _ = (&mut self.has_to_go).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lobby.guests.lock().waiting.retain(|guest| guest.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn has_gone(place: &mut Place) -> bool {
        place.has_to_go.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_of_one_address_makes_way_for_its_next() {
        let lobby = Lobby::new(10, 2);
        let mut quiet = lobby.enter(address(1));
        let mut places: Vec<_> = (0..5).map(|_| lobby.enter(address(2))).collect();
        let gone: Vec<_> = places.iter_mut().map(has_gone).collect();
        assert_eq!(gone, [true, true, true, false, false]);
        assert!(!has_gone(&mut quiet));
        drop(places);
        assert_eq!(lobby.guests.lock().waiting.len(), 1);
    }

    #[test]
    fn when_it_is_full_the_address_with_most_gives_way() {
        let lobby = Lobby::new(4, 3);
        let mut many: Vec<_> = (0..3).map(|_| lobby.enter(address(1))).collect();
        let mut few: Vec<_> = (2..4).map(|last| lobby.enter(address(last))).collect();
        assert!(has_gone(&mut many[0]) && !has_gone(&mut many[1]));
        assert!(!few.iter_mut().any(has_gone));
    }
}
