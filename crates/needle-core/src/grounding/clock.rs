//! The date that the model is told: the system fact `date: 2026-07-31 Fri 14:20`.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use super::scan::Scan;

/// A wall-clock time without its zone, to the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, as in 2026.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u32,
    /// The day of the month, 1 to 31.
    pub day: u32,
    /// The hour, 0 to 23.
    pub hour: u32,
    /// The minute, 0 to 59.
    pub minute: u32,
}

impl LocalTime {
    /// The time of the machine's own zone, daylight saving included, as its C library knows it
    /// (`TZ`, else the system setting).
    ///
    /// # Errors
    /// Where the clock shows a time before 1970 or one that the C library cannot express.
    pub fn now() -> io::Result<Self> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        Self::from_c(broken_down(since_epoch.as_secs())?).map_err(io::Error::other)
    }

    fn from_c(time: libc::tm) -> Result<Self, std::num::TryFromIntError> {
        Ok(Self {
            year: time.tm_year + 1900,
            month: u32::try_from(time.tm_mon + 1)?,
            day: time.tm_mday.try_into()?,
            hour: time.tm_hour.try_into()?,
            minute: time.tm_min.try_into()?,
        })
    }

    /// The weekday's short English name, from the date (Gregorian; Sakamoto's congruence).
    pub fn weekday(&self) -> &'static str {
        const NAMES: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
        const MONTH_SHIFTS: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = i64::from(self.year) - i64::from(self.month < 3);
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let month_shift = MONTH_SHIFTS[(self.month.saturating_sub(1) % 12) as usize];
        let weekday = (year + leap_days + month_shift + i64::from(self.day)).rem_euclid(7);
        NAMES[weekday as usize]
    }
}

/// The system text with today's date put in front unless it has one.
///
/// It has one where it holds a key `date:` (lower case, not the tail of a longer word such as `update:`) or anything of
/// the form 2026-07-31. A text that begins with `{` is JSON and is left alone. `Date:` is not the model's key and does
/// not count, as in the reference, so that the same system text makes the same prompt.
pub fn with_date(system: &str, now: LocalTime) -> String {
    if has_date(system) {
        return system.into();
    }
    let LocalTime {
        year,
        month,
        day,
        hour,
        minute,
    } = now;
    let fact = format!(
        "date: {year:04}-{month:02}-{day:02} {} {hour:02}:{minute:02}",
        now.weekday()
    );
    match system.trim_start() {
        "" => fact,
        text if text.starts_with('{') => system.into(),
        _ => format!("{fact}; {system}"),
    }
}

fn has_date(system: &str) -> bool {
    let text = Scan::new(system);
    let is_key = |at: usize| {
        text.word(at, "date:").is_some() && !text.before(at).is_some_and(|before| before.is_ascii_alphabetic())
    };
    (0..text.len()).any(|at| is_key(at) || text.shape(at, "0000-00-00").is_some())
}

#[cfg(unix)]
fn broken_down(seconds: u64) -> io::Result<libc::tm> {
    let seconds = seconds.try_into().map_err(io::Error::other)?;
    let mut time = std::mem::MaybeUninit::uninit();
    // SAFETY: both pointers are to live, properly aligned places of the types that localtime_r takes. Where it does not
    // return null it has filled the second one.
    unsafe {
        if libc::localtime_r(&seconds, time.as_mut_ptr()).is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(time.assume_init())
    }
}

#[cfg(windows)]
fn broken_down(seconds: u64) -> io::Result<libc::tm> {
    let seconds = seconds.try_into().map_err(io::Error::other)?;
    let mut time = std::mem::MaybeUninit::uninit();
    // SAFETY: both pointers are to live, properly aligned places of the types that localtime_s takes. Where it returns
    // zero it has filled the first one.
    unsafe {
        match libc::localtime_s(time.as_mut_ptr(), &seconds) {
            0 => Ok(time.assume_init()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: LocalTime = LocalTime {
        year: 2026,
        month: 7,
        day: 31,
        hour: 9,
        minute: 5,
    };
    const FACT: &str = "date: 2026-07-31 Fri 09:05";

    #[test]
    fn the_date_goes_in_front_unless_there_is_one() {
        for (system, expected) in [
            ("", FACT.to_owned()),
            (" \n", FACT.to_owned()),
            ("locale: en-GB", format!("{FACT}; locale: en-GB")),
            ("  device: tv", format!("{FACT};   device: tv")),
            ("update: done", format!("{FACT}; update: done")),
            ("Date: tomorrow", format!("{FACT}; Date: tomorrow")),
            ("7date: x", "7date: x".to_owned()),
            ("locale: de; date: x", "locale: de; date: x".to_owned()),
            ("since 2020-01-01", "since 2020-01-01".to_owned()),
            (" {\"locale\": \"de\"}", " {\"locale\": \"de\"}".to_owned()),
        ] {
            assert_eq!(with_date(system, NOW), expected, "{system:?}");
        }
    }

    #[test]
    fn weekdays() {
        for (year, month, day, name) in [
            (2026, 7, 31, "Fri"),
            (2000, 2, 29, "Tue"),
            (1970, 1, 1, "Thu"),
            (1900, 1, 1, "Mon"),
            (2024, 12, 1, "Sun"),
        ] {
            assert_eq!(
                LocalTime {
                    year,
                    month,
                    day,
                    ..NOW
                }
                .weekday(),
                name,
                "{year}-{month}-{day}"
            );
        }
    }

    #[test]
    fn the_clock_of_this_machine() {
        let now = LocalTime::now().unwrap();
        assert!(
            now.year >= 2024 && (1..=12).contains(&now.month) && (1..=31).contains(&now.day),
            "{now:?}"
        );
        assert!(now.hour < 24 && now.minute < 60, "{now:?}");
    }
}
