//! A compact hash table without long pauses: linear hashing (W. Litwin, 1980). The table grows by one bucket at
//! a time, so an insertion moves the rows of at most one bucket. A sweep goes bucket by bucket.

/// The key of a row: 128 bits.
pub(super) type Key = [u32; 4];

/// Average number of rows in a bucket. Above this number, a bucket is added.
const ROWS_PER_BUCKET: usize = 32;

/// Number of rows by which a full bucket grows.
const GROWTH: usize = 4;

/// A row takes 20 bytes without its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<V> {
    key: Key,
    /// Seconds since 1970.
    pub(super) exp: u32,
    pub(super) value: V,
}

impl<V> Row<V> {
    pub(super) const fn key(&self) -> Key {
        self.key
    }
}

#[derive(Debug)]
pub(super) struct Table<V> {
    buckets: Vec<Vec<Row<V>>>,
    len: usize,
    /// The bucket with which the next part of a sweep starts.
    next_swept: usize,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            buckets: Vec::new(),
            len: 0,
            next_swept: 0,
        }
    }
}

/// Keys may be ids that count upwards in any word, so the words are mixed as at the end of MurmurHash3 (A.
/// Appleby).
fn hash(key: &Key) -> usize {
    let [a, b, c, d] = key;
    let mut mixed = a ^ b.rotate_left(8) ^ c.rotate_left(16) ^ d.rotate_left(24);
    mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    (mixed ^ (mixed >> 16)) as usize
}

impl<V: Copy> Table<V> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The bucket of a key in a table with `buckets` buckets.
    fn place(key: &Key, buckets: usize) -> usize {
        let mask = buckets.next_power_of_two().wrapping_sub(1);
        let place = hash(key) & mask;
        if place < buckets {
            place
        } else {
            place & (mask >> 1)
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Row<V>> {
        let bucket = self.buckets.get(Self::place(key, self.buckets.len()))?;
        bucket.iter().find(|row| row.key == *key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Row<V>> {
        let place = Self::place(key, self.buckets.len());
        let bucket = self.buckets.get_mut(place)?;
        bucket.iter_mut().find(|row| row.key == *key)
    }

    /// Adds a row. The table must not contain the key.
    pub(super) fn add(&mut self, key: Key, exp: u32, value: V) {
        if self.len >= self.buckets.len() * ROWS_PER_BUCKET {
            self.split();
        }
        let place = Self::place(&key, self.buckets.len());
        if let Some(bucket) = self.buckets.get_mut(place) {
            if bucket.len() == bucket.capacity() {
                bucket.reserve_exact(GROWTH);
            }
            bucket.push(Row { key, exp, value });
            self.len += 1;
        }
    }

    /// Adds a bucket, and moves its rows there, all from one other bucket.
    fn split(&mut self) {
        let new = self.buckets.len();
        self.buckets.push(Vec::new());
        let half = (new + 1).next_power_of_two() / 2;
        if new == 0 {
            return;
        }
        if let Some(source) = self.buckets.get_mut(new - half) {
            let moved: Vec<Row<V>> = source
                .extract_if(.., |row| Self::place(&row.key, new + 1) == new)
                .collect();
            source.shrink_to_fit();
            if let Some(bucket) = self.buckets.get_mut(new) {
                bucket.reserve_exact(moved.len());
                bucket.extend(moved);
            }
        }
    }

    /// Removes the rows for which `is_over` is true from up to `buckets` buckets. The next call continues with
    /// the following bucket. Returns true if the sweep reached the end of the table.
    pub(super) fn sweep(
        &mut self,
        buckets: usize,
        mut is_over: impl FnMut(&Row<V>) -> bool,
    ) -> bool {
        for _ in 0..buckets {
            let Some(bucket) = self.buckets.get_mut(self.next_swept) else {
                self.next_swept = 0;
                return true;
            };
            self.next_swept += 1;
            let before = bucket.len();
            bucket.retain(|row| !is_over(row));
            self.len -= before - bucket.len();
            if bucket.capacity() > 2 * bucket.len() + GROWTH {
                bucket.shrink_to(bucket.len() + GROWTH);
            }
        }
        false
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row<V>> {
        self.buckets.iter().flatten()
    }

    pub(super) const fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Bytes of the rows and buckets, without the allocator's overhead.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let rows: usize = self.buckets.iter().map(Vec::capacity).sum();
        rows * size_of::<Row<V>>() + self.buckets.capacity() * size_of::<Vec<Row<V>>>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u32) -> Key {
        [0, 7, number, 0]
    }

    #[test]
    fn every_row_is_found_while_the_table_grows() {
        let mut table = Table::default();
        for number in 0..10_000 {
            assert!(table.get(&key(number)).is_none());
            table.add(key(number), number, number);
            assert!(table.get(&key(number / 2)).is_some());
        }
        for number in 0..10_000 {
            assert_eq!(table.get(&key(number)).map(|row| row.value), Some(number));
        }
        assert_eq!(table.len(), 10_000);
    }

    /// Ids that count upwards in any of the four words spread over the buckets like random ids.
    #[test]
    fn no_bucket_gets_much_more_than_its_share() {
        for word in 0..4 {
            let mut table = Table::default();
            for number in 0..100_000 {
                let mut key = [1, 2, 3, 4];
                key[word] = number;
                table.add(key, 0, ());
            }
            let longest = table.buckets.iter().map(Vec::len).max().unwrap();
            assert!(longest < 4 * ROWS_PER_BUCKET, "{longest} in word {word}");
        }
    }

    #[test]
    fn a_sweep_goes_over_all_rows_in_slices() {
        let mut table = Table::default();
        for number in 0..10_000 {
            table.add(key(number), number, ());
        }
        let mut slices = 1;
        while !table.sweep(10, |row| row.exp < 5000) {
            slices += 1;
        }
        assert!(slices > 10);
        assert_eq!(table.len(), 5000);
        for number in 0..10_000 {
            assert_eq!(table.get(&key(number)).is_some(), number >= 5000);
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map(numbers: Vec<u16>) {
            let mut table = Table::default();
            let mut map = std::collections::BTreeMap::new();
            for (value, number) in numbers.into_iter().enumerate() {
                match table.get_mut(&key(number.into())) {
                    Some(row) => row.value = value,
                    None => table.add(key(number.into()), 0, value),
                }
                map.insert(number, value);
                prop_assert_eq!(table.len(), map.len());
            }
            for (number, value) in map {
                prop_assert_eq!(table.get(&key(number.into())).map(|row| row.value), Some(value));
            }
        }
    }
}
