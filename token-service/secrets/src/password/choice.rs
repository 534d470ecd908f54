//! A password that a person chooses: the comparison with the present password, and the hash, as one piece of work.

use zeroize::Zeroizing;

use super::budget::{BUDGET, NEW_MEMORY};
use super::{Match, PasswordError, new_hash, places, read};

/// A password that a person chooses, and that keeps the [rules](crate::password_rules).
pub struct Choice {
    pub password: Zeroizing<String>,
    /// The hash of the present password.
    pub present: Option<String>,
}

/// What became of a chosen password.
#[derive(PartialEq, Eq)]
pub enum Chosen {
    /// Its hash.
    Hash(String),
    /// It is the present password.
    Unchanged,
}

impl Choice {
    /// The permits of memory, and the places in the lane.
    ///
    /// # Errors
    /// As for [`BUDGET`]: the present hash is unreadable or too large.
    pub(super) fn needs(&self) -> Result<(u32, u32), PasswordError> {
        let Some(present) = &self.present else {
            return Ok((NEW_MEMORY, 1));
        };
        let present = read(present)?;
        let places = places(&present, &self.password).saturating_add(1);
        Ok((BUDGET.permits(&present)?, places))
    }

    pub(super) fn decide(&self) -> Result<Chosen, PasswordError> {
        if let Some(present) = &self.present
            && Match::of(&read(present)?, &self.password) != Match::None
        {
            return Ok(Chosen::Unchanged);
        }
        new_hash(&self.password).map(Chosen::Hash)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{hash, verify};
    use super::*;

    #[test]
    fn a_chosen_password_is_hashed_unless_it_is_the_present_one() {
        let chosen = "rope under eleven moons";
        let mut choice = Choice {
            password: chosen.to_owned().into(),
            present: None,
        };
        let Ok(Chosen::Hash(hashed)) = choice.decide() else {
            panic!("there is no present password")
        };
        assert_eq!(verify(chosen, &hashed), Ok(true));
        choice.present = Some(hash(chosen).unwrap());
        assert_eq!(choice.needs(), Ok((NEW_MEMORY, 2)));
        assert!(choice.decide() == Ok(Chosen::Unchanged));
    }
}
