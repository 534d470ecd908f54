//! Decides whether a measurement grew during the run.

use crate::measure::spread;

/// Allowed growth between start and end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    /// Factor of the start, such as 1.1.
    pub(crate) ratio: f64,
    /// Added to the product, in the unit of the measurement.
    pub(crate) slack: f64,
}

/// A measurement before, at the end, and the most that is allowed at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) before: f64,
    pub(crate) end: f64,
    pub(crate) most: f64,
}

impl Verdict {
    pub(crate) fn is_growth(self) -> bool {
        // A measurement that failed is no success.
        self.end.is_nan() || self.most.is_nan() || self.end > self.most
    }
}

/// Compares the median of the last third of a series with that of the second third. The first third does not count,
/// because caches fill and no rows have expired yet. `None` if the series is too short.
pub(crate) fn check(series: &[f64], bound: Bound) -> Option<Verdict> {
    let third = series.len() / 3;
    let part = |number: usize| series.get(number * third..).unwrap_or_default();
    let before = median(part(1).get(..third).unwrap_or_default())?;
    let end = median(part(2))?;
    let most = before * bound.ratio + bound.slack;
    Some(Verdict { before, end, most })
}

/// Like [`check`], for a latency: if the machine got slower, the latency may grow by the same factor. `machine` has the
/// times of the same work in the same windows.
pub(crate) fn check_latency(series: &[f64], machine: &[f64], bound: Bound) -> Option<Verdict> {
    const SAME: Bound = Bound {
        ratio: 1.0,
        slack: 0.0,
    };
    let work = check(machine, SAME)?;
    let verdict = check(series, bound)?;
    let slower = (work.end / work.before).max(1.0);
    Some(Verdict {
        most: verdict.most * slower,
        ..verdict
    })
}

fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| spread(values).median)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound {
        ratio: 1.1,
        slack: 4.0,
    };

    fn grew(series: &[f64]) -> bool {
        check(series, BOUND).unwrap().is_growth()
    }

    #[test]
    fn a_start_that_fills_caches_is_no_growth() {
        let series = [10., 30., 50., 60., 61., 60., 62., 60., 61., 62., 61., 60.];
        assert!(!grew(&series));
    }

    #[test]
    fn a_single_peak_is_no_growth() {
        let series = [60., 60., 60., 60., 60., 60., 60., 60., 60., 400., 60., 60.];
        assert!(!grew(&series));
    }

    #[test]
    fn steady_growth_is_found() {
        let series: Vec<f64> = (0..12).map(|window| f64::from(60 + window * 5)).collect();
        assert!(grew(&series));
        let verdict = check(&series, BOUND).unwrap();
        assert_eq!((verdict.end, verdict.before), (110.0, 90.0));
    }

    #[test]
    fn a_step_late_in_the_run_is_found() {
        let series = [5., 5., 5., 5., 5., 5., 5., 5., 5., 50., 50., 50.];
        assert!(grew(&series));
    }

    #[test]
    fn less_at_the_end_is_fine() {
        let series = [9., 9., 9., 9., 9., 9., 9., 9., 1., 1., 1., 1.];
        assert!(!grew(&series));
    }

    #[test]
    fn nothing_measured_is_no_success() {
        assert_eq!(check(&[], BOUND), None);
        assert_eq!(check(&[1., 1.], BOUND), None);
        assert!(grew(&[f64::NAN; 12]));
    }

    #[test]
    fn a_slower_machine_explains_a_latency_as_much_slower() {
        let latency = [9., 9., 9., 9., 9., 9., 40., 40., 40.];
        let (even, slower) = ([2.; 9], [2., 2., 2., 2., 2., 2., 8., 8., 8.]);
        let faster = [8., 8., 8., 8., 8., 8., 2., 2., 2.];
        let grew = |machine: &[f64]| check_latency(&latency, machine, BOUND).unwrap().is_growth();
        assert!(grew(&even));
        assert!(grew(&faster));
        assert!(!grew(&slower));
    }
}
