//! Decides whether a measurement grew during the run.

/// Allowed growth between start and end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    /// Factor of the start, such as 1.1.
    pub(crate) ratio: f64,
    /// Added to the product, in the unit of the measurement.
    pub(crate) slack: f64,
}

/// Compares the median of the last third of a series with that of the second third. The first third does not count,
/// because caches fill and no rows have expired yet.
///
/// # Errors
/// Both medians and the bound, if the end is above it; or that the series is too short.
pub(crate) fn check(series: &[f64], bound: Bound) -> Result<(), String> {
    let third = series.len() / 3;
    let part = |number: usize| series.get(number * third..).unwrap_or_default();
    let (start, end) = (part(1).get(..third).unwrap_or_default(), part(2));
    let (Some(start), Some(end)) = (median(start), median(end)) else {
        return Err(format!("{} values are too few to compare", series.len()));
    };
    let most = start * bound.ratio + bound.slack;
    if end > most {
        return Err(format!(
            "{end:.1} at the end, {start:.1} before, at most {most:.1} allowed"
        ));
    }
    Ok(())
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound {
        ratio: 1.1,
        slack: 4.0,
    };

    #[test]
    fn a_start_that_fills_caches_is_no_growth() {
        let series = [10., 30., 50., 60., 61., 60., 62., 60., 61., 62., 61., 60.];
        assert_eq!(check(&series, BOUND), Ok(()));
    }

    #[test]
    fn a_single_peak_is_no_growth() {
        let series = [60., 60., 60., 60., 60., 60., 60., 60., 60., 400., 60., 60.];
        assert_eq!(check(&series, BOUND), Ok(()));
    }

    #[test]
    fn steady_growth_is_found() {
        let series: Vec<f64> = (0..12).map(|window| f64::from(60 + window * 5)).collect();
        let found = check(&series, BOUND).unwrap_err();
        assert!(
            found.starts_with("110.0 at the end, 90.0 before"),
            "{found}"
        );
    }

    #[test]
    fn a_step_late_in_the_run_is_found() {
        let series = [5., 5., 5., 5., 5., 5., 5., 5., 5., 50., 50., 50.];
        assert!(check(&series, BOUND).is_err());
    }

    #[test]
    fn less_at_the_end_is_fine() {
        let series = [9., 9., 9., 9., 9., 9., 9., 9., 1., 1., 1., 1.];
        assert_eq!(check(&series, BOUND), Ok(()));
    }

    #[test]
    fn nothing_measured_is_no_success() {
        assert!(check(&[], BOUND).is_err());
        assert!(check(&[1., 1.], BOUND).is_err());
    }
}
