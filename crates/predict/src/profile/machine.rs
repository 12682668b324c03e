//! The machine on which a profile was measured.

use crate::Problem;
use crate::json::Node;

/// A host and the kernel that it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// The release of its kernel.
    pub kernel: String,
}

impl Machine {
    /// Reads `provenance` of a profile; one that nobody measured names none.
    pub(super) fn read(provenance: &Node<'_>) -> Result<Option<Self>, Problem> {
        let host = provenance.optional("host")?.map(|host| host.text()).transpose()?;
        let kernel = provenance.optional("kernel")?.map(|kernel| kernel.text()).transpose()?;
        let both = host.zip(kernel);
        Ok(both.map(|(host, kernel)| Self { host: host.to_owned(), kernel: kernel.to_owned() }))
    }

    /// Why what was measured on this machine may not hold for another one, or for this one with another kernel.
    #[must_use]
    pub fn unlike(&self, here: &Self) -> Option<String> {
        let Self { host, kernel } = self;
        if *host != here.host {
            return Some(format!(
                "measured on '{host}' (kernel {kernel}), and this is '{}' (kernel {}): the answer holds for '{host}'",
                here.host, here.kernel
            ));
        }
        (*kernel != here.kernel).then(|| {
            format!("measured with kernel {kernel}, and '{host}' runs {} now: times of calls may be other ones", here.kernel)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(host: &str, kernel: &str) -> Machine {
        Machine { host: host.to_owned(), kernel: kernel.to_owned() }
    }

    #[test]
    fn another_host_or_another_kernel_is_told() {
        let measured = machine("n1", "6.1.0");
        assert_eq!(measured.unlike(&measured), None);
        let said = measured.unlike(&machine("n2", "6.1.0")).unwrap_or_default();
        assert!(said.contains("'n1'") && said.contains("'n2'"), "{said}");
        let said = measured.unlike(&machine("n1", "6.8.0")).unwrap_or_default();
        assert!(said.contains("6.1.0") && said.contains("6.8.0"), "{said}");
    }
}
