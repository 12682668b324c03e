//! Which of many items comes first, where their keys change again and again.

/// No item has so high a number, and there are not so many.
const NOWHERE: u32 = u32::MAX;

/// Numbered items in the order of their keys: a binary heap that knows where in it each item is, so that an item whose key
/// changes is moved, and not entered a second time.
#[derive(Clone, Debug)]
pub(super) struct FirstOf<K> {
    heap: Vec<(K, u32)>,
    /// By item: its place in the heap.
    places: Vec<u32>,
}

impl<K> Default for FirstOf<K> {
    fn default() -> Self {
        Self { heap: Vec::new(), places: Vec::new() }
    }
}

impl<K: Copy + Ord> FirstOf<K> {
    /// The first item, after its key.
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// The key under which an item is entered.
    pub(super) fn key(&self, item: u32) -> Option<K> {
        let place = *self.places.get(item as usize)?;
        self.heap.get(place as usize).map(|(key, _)| *key)
    }

    /// Enters an item, or moves it; with no key it is taken out.
    pub(super) fn set(&mut self, item: u32, key: Option<K>) {
        let Some(key) = key else { return self.remove(item) };
        if self.places.len() <= item as usize {
            self.places.resize(item as usize + 1, NOWHERE);
        }
        match self.places[item as usize] {
            NOWHERE => {
                self.heap.push((key, item));
                self.rise(self.heap.len() - 1, (key, item));
            }
            place => self.settle(place as usize, (key, item)),
        }
    }

    pub(super) fn remove(&mut self, item: u32) {
        let Some(place) = self.places.get_mut(item as usize) else { return };
        let place = std::mem::replace(place, NOWHERE) as usize;
        if place < self.heap.len()
            && let Some(last) = self.heap.pop()
            && place < self.heap.len()
        {
            self.settle(place, last);
        }
    }

    /// Puts an entry at a place that another one has, or further up or down.
    fn settle(&mut self, place: usize, entry: (K, u32)) {
        match entry < self.heap[place] {
            true => self.rise(place, entry),
            false => self.sink(place, entry),
        }
    }

    fn rise(&mut self, mut place: usize, entry: (K, u32)) {
        while let Some(above) = place.checked_sub(1).map(|place| place / 2) {
            if self.heap[above] < entry {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: (K, u32)) {
        while let Some(mut below) = self.heap.get(2 * place + 1).copied() {
            let mut at = 2 * place + 1;
            if let Some(other) = self.heap.get(at + 1).filter(|other| **other < below) {
                (below, at) = (*other, at + 1);
            }
            if entry < below {
                break;
            }
            self.put(place, below);
            place = at;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (K, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = u32::try_from(place).unwrap_or(NOWHERE);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_that_of_a_sorted_list(
            steps in vec((0_u32..20, prop::option::weighted(0.7, 0_u64..50)), 1..200),
        ) {
            let (mut first_of, mut known) = (FirstOf::default(), Vec::<(u64, u32)>::new());
            for (item, key) in steps {
                known.retain(|(_, other)| *other != item);
                known.extend(key.map(|key| (key, item)));
                first_of.set(item, key);
                prop_assert_eq!(first_of.first(), known.iter().min().copied());
                prop_assert_eq!(first_of.key(item), key);
            }
        }
    }
}
