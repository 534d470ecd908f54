//! Gauges to which the VMs of all workers write, so that the worst value is visible.
//!
//! A gateway has one gauge for each name, but one VM for each worker. If every VM recorded its own number, the
//! gauge would show the last one, and a worker with a problem would stay invisible.

/// A VM's share in a gauge that shows the sum over all VMs: each VM adds its changes. The share of a crashed VM
/// stays in the sum until the gateway restarts.
#[derive(Debug, Default)]
pub struct Share {
    published: i64,
}

impl Share {
    /// Returns what to add to the gauge so that this VM's share becomes `number`.
    pub fn change(&mut self, number: u64) -> i64 {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let change = number.saturating_sub(self.published);
        self.published = number;
        change
    }
}

/// After this many readings without a change, the VM that wrote the gauge counts as gone. A VM whose number
/// grows every second, such as an age, writes every second.
const STILL: u32 = 5;

/// A VM's part in a gauge that shows the largest number of all VMs. Any VM writes a larger number. Only the VM
/// that wrote last, or any VM if that one is gone, writes a smaller number. For numbers that grow with time
/// until they fall.
#[derive(Debug, Default)]
pub struct Worst {
    written: Option<u64>,
    seen: u64,
    still: u32,
}

impl Worst {
    /// Returns the number to record, if any. `number` is this VM's own, and `shown` is the gauge's. Called once
    /// a second.
    pub fn record(&mut self, number: u64, shown: u64) -> Option<u64> {
        if shown == self.seen {
            self.still += 1;
        } else {
            self.still = 0;
        }
        self.seen = shown;
        let is_ours = self.written == Some(shown);
        if number < shown && !is_ours && self.still < STILL {
            self.written = None;
            return None;
        }
        self.written = Some(number);
        self.still = 0;
        self.seen = number;
        (number != shown).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VMs that each tick once a second, and their common gauge.
    struct Vms {
        vms: Vec<Worst>,
        gauge: u64,
    }

    impl Vms {
        fn new(count: usize) -> Self {
            let vms = std::iter::repeat_with(Worst::default).take(count).collect();
            Self { vms, gauge: 0 }
        }

        /// Runs one second; `None` stands for a VM that is gone. Returns the smallest number that the gauge
        /// showed after a tick.
        fn tick(&mut self, numbers: &[Option<u64>]) -> u64 {
            let mut least = u64::MAX;
            for (vm, number) in self.vms.iter_mut().zip(numbers) {
                if let Some(number) = number {
                    let recorded = vm.record(*number, self.gauge);
                    self.gauge = recorded.unwrap_or(self.gauge);
                    least = least.min(self.gauge);
                }
            }
            least
        }
    }

    #[test]
    fn a_worker_in_trouble_shows_whichever_ticks_last() {
        for troubled in 0..4 {
            let mut vms = Vms::new(4);
            for second in 1..100 {
                let numbers: Vec<_> = (0..4)
                    .map(|vm| {
                        Some(if vm == troubled {
                            50 + second
                        } else {
                            second % 3
                        })
                    })
                    .collect();
                let least = vms.tick(&numbers);
                assert_eq!(vms.gauge, 50 + second);
                assert!(
                    second == 1 || least >= 50 + second - 1,
                    "{troubled} at {second}: {least}"
                );
            }
            // After the recovery, the gauge follows within two seconds.
            for second in 0..3 {
                vms.tick(&[Some(second); 4]);
            }
            assert_eq!(vms.gauge, 2);
        }
    }

    #[test]
    fn the_number_of_a_worker_that_is_gone_does_not_stay() {
        let mut vms = Vms::new(3);
        vms.tick(&[Some(1), Some(500), Some(2)]);
        assert_eq!(vms.gauge, 500);
        for second in 0..10 {
            vms.tick(&[Some(second % 3), None, Some(2)]);
        }
        assert!(vms.gauge <= 2, "{}", vms.gauge);
    }

    #[test]
    fn two_workers_in_trouble_end_it_one_by_one() {
        let mut vms = Vms::new(3);
        for second in 10..30 {
            vms.tick(&[Some(second), Some(second), Some(0)]);
        }
        for second in 30..40 {
            vms.tick(&[Some(0), Some(second), Some(0)]);
            assert_eq!(vms.gauge, second);
        }
    }

    #[test]
    fn shares_add_up() {
        let (mut one, mut two, mut gauge) = (Share::default(), Share::default(), 0);
        for (first, second) in [(3, 0), (3, 5), (0, 7), (0, 7), (1, 0), (0, 0)] {
            gauge += one.change(first) + two.change(second);
            assert_eq!(gauge, i64::try_from(first + second).unwrap());
        }
        assert_eq!(one.change(u64::MAX), i64::MAX);
        assert_eq!(one.change(0), -i64::MAX);
    }
}
