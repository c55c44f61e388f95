//! Which names are wanted: FIRSTDIFF_ONLY, globs separated by commas, as Python's fnmatch reads them.

/// The globs of a filter; none means that all names are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    globs: Vec<Vec<char>>,
}

impl Filter {
    pub(crate) fn new(globs: &str) -> Filter {
        let globs = globs.split(',').map(str::trim).filter(|glob| !glob.is_empty());
        Filter { globs: globs.map(|glob| glob.chars().collect()).collect() }
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        if self.globs.is_empty() {
            return true;
        }
        let name: Vec<char> = name.chars().collect();
        self.globs.iter().any(|glob| fits(glob, &name))
    }
}

/// `*` fits any text, dots and slashes included, `?` one character, `[ab-d]` and `[!ab]` one of a set.
fn fits(glob: &[char], name: &[char]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None; // behind the last star, and where its text ends
    while n < name.len() || g < glob.len() {
        if g < glob.len() && glob[g] == '*' {
            star = Some((g + 1, n));
            g += 1;
            continue;
        }
        if n < name.len() {
            if let Some(width) = fits_one(&glob[g..], name[n]) {
                g += width;
                n += 1;
                continue;
            }
        }
        match star {
            Some((behind, end)) if end < name.len() => {
                star = Some((behind, end + 1));
                g = behind;
                n = end + 1;
            }
            _ => return false,
        }
    }
    true
}

/// How long the piece of the glob is that fits the character.
fn fits_one(glob: &[char], c: char) -> Option<usize> {
    match *glob.first()? {
        '?' => Some(1),
        '[' => match set_end(glob) {
            Some(end) => fits_set(&glob[1..end], c).then(|| end + 1),
            None => (c == '[').then_some(1),
        },
        other => (c == other).then_some(1),
    }
}

/// Where the `]` of a set stands; one right at its start belongs to the set.
fn set_end(glob: &[char]) -> Option<usize> {
    let first = if glob.get(1) == Some(&'!') { 3 } else { 2 };
    (first..glob.len()).find(|&place| glob[place] == ']')
}

fn fits_set(set: &[char], c: char) -> bool {
    let negated = set.first() == Some(&'!');
    let set = if negated { &set[1..] } else { set };
    let mut place = 0;
    let mut found = false;
    while place < set.len() {
        if place + 2 < set.len() && set[place + 1] == '-' {
            found |= (set[place]..=set[place + 2]).contains(&c);
            place += 3;
        } else {
            found |= set[place] == c;
            place += 1;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_as_in_python() {
        for (globs, name, wanted) in [
            ("", "anything", true),
            ("mel.*,ids", "mel.log", true),
            ("mel.*, ids ,", "ids", true),
            ("mel.*", "mel", false),
            ("*", "", true),
            ("layers.?.q", "layers.3.q", true),
            ("layers.?.q", "layers.33.q", false),
            ("*.attn.*", "layers.0.attn.q.w", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("[0-3]x", "2x", true),
            ("[!0-3]x", "2x", false),
            ("[]x]", "]", true),
            ("[x", "[x", true),
            ("日*", "日本", true),
            ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(Filter::new(globs).wants(name), wanted, "{globs} {name}");
        }
    }
}
