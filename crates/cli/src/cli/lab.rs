//! The command line of `intarsia lab`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// Try a cluster on one machine: many hosts, each a network namespace, with links that can be slow or cut
///
/// A lab's nodes n1, n2, … reach each other over links of a given rate, and nothing else: the machine's own
/// network has no part in it and is not changed. Files, mounts and users are shared with the machine. Needs
/// root, Linux, and the Debian packages iproute2, nftables and util-linux.
#[derive(Args)]
#[command(after_long_help = "Examples:
  eval \"$(intarsia lab up --nodes 4 --link 100mbit)\"
  intarsia lab exec n1 -- ping -c 1 10.77.0.2
  intarsia lab cut n1 n2 --for 5s
  intarsia lab status
  intarsia lab down")]
pub(crate) struct LabVerb {
    #[command(subcommand)]
    pub(crate) verb: LabAction,
}

#[derive(Subcommand)]
pub(crate) enum LabAction {
    Up(LabUp),
    Exec(LabExec),
    Status(LabStatus),
    Cut(LabCut),
    Heal(LabHeal),
    Link(LabLink),
    Down(LabDown),
}

/// Make a lab
///
/// Makes all of it or nothing. The `export` line goes to standard output, all other text to standard error.
#[derive(Args)]
#[command(after_long_help = "Examples:
  eval \"$(intarsia lab up --nodes 20 --link 100mbit)\"
  intarsia lab up demo --nodes 4 --subnet 192.168.50.0/24
  intarsia lab up --nodes 2 --link 1gbit --dry-run      the calls of ip, tc and nft, as a script")]
pub(crate) struct LabUp {
    /// The lab's name
    #[arg(value_name = "NAME", default_value = "lab")]
    pub(crate) name: String,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) nodes: u16,
    /// Rate of each node's link in each direction, such as 10mbit or 1gbit [default: as fast as the machine]
    #[arg(long, value_name = "RATE")]
    pub(crate) link: Option<String>,
    /// The nodes' network; labs never meet, so all may use the same
    #[arg(long, value_name = "NETWORK", default_value = "10.77.0.0/16")]
    pub(crate) subnet: String,
    /// Print what would be called, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the lab as JSON instead of the `export` line
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
}

/// Which lab a verb is about.
#[derive(Args)]
pub(crate) struct LabTarget {
    /// The lab's name [default: INTARSIA_LAB, or the only lab]
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,
}

/// Run a program on a node, or on all nodes
///
/// The program enters the node's network; all else is as it is here, so that what it mounts is seen by everybody. It
/// takes the place of this command: signals reach it, and its exit code is the exit code. Its environment says
/// where it is: INTARSIA_LAB, INTARSIA_LAB_NODE, INTARSIA_LAB_ADDRESS, and INTARSIA_LAB_HOSTS, a file with
/// the addresses of all nodes.
///
/// With --all it runs on every node at once, without standard input; each line of output begins with the node's
/// name, signals are passed on, and the exit code is that of the first node that failed (128 + the number for a signal).
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lab exec n1 -- ping -c 1 10.77.0.2
  intarsia lab exec n1 --names -- ping -c 1 n2          with names instead of addresses
  intarsia lab exec --all -- sh -c 'echo $INTARSIA_LAB_NODE has $INTARSIA_LAB_ADDRESS'
  intarsia lab exec n3 -- bash                          a shell on n3")]
pub(crate) struct LabExec {
    /// The node, such as n1
    #[arg(value_name = "NODE", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) node: Option<String>,
    /// On all nodes at once
    #[arg(long)]
    pub(crate) all: bool,
    /// Let programs find nodes by name; what they mount is then hidden from other programs
    #[arg(long)]
    pub(crate) names: bool,
    #[command(flatten)]
    pub(crate) target: LabTarget,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

/// Show the labs, or one: nodes, addresses, rates, cuts, processes
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lab status
  intarsia lab status demo --json")]
pub(crate) struct LabStatus {
    /// The lab's name [default: INTARSIA_LAB, or the only lab]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// List all labs, one line each
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Cut the link between two nodes, or all links of one
///
/// What is sent over a cut link is lost without a sign, as when a cable is pulled at the switch.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lab cut n1 n2                 neither reaches the other
  intarsia lab cut n1 n2 --one-way       n1 does not reach n2, but n2 reaches n1
  intarsia lab cut n3 --for 5s           n3 is alone, for five seconds
  intarsia lab cut n3 --one-way          n3 hears the others, but nobody hears it")]
pub(crate) struct LabCut {
    /// A node, such as n1
    #[arg(value_name = "A")]
    pub(crate) a: String,
    /// The other node [default: all others]
    #[arg(value_name = "B")]
    pub(crate) b: Option<String>,
    /// Only what A sends
    #[arg(long)]
    pub(crate) one_way: bool,
    /// Heal by itself after this time, such as 5s
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) time: Option<String>,
    #[command(flatten)]
    pub(crate) target: LabTarget,
    /// Check and say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what is cut then, as JSON
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
}

/// Heal the link between two nodes, all links of one, or all
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lab heal
  intarsia lab heal n3
  intarsia lab heal n1 n2")]
pub(crate) struct LabHeal {
    /// A node, such as n1 [default: all nodes]
    #[arg(value_name = "A")]
    pub(crate) a: Option<String>,
    /// The other node [default: all others]
    #[arg(value_name = "B")]
    pub(crate) b: Option<String>,
    #[command(flatten)]
    pub(crate) target: LabTarget,
    /// Check and say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what is cut then, as JSON
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
}

/// Change the rate of nodes' links, in both directions
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lab link n3 --rate 10mbit            a slow host
  intarsia lab link n1 n2 --rate unlimited      as fast as the machine")]
pub(crate) struct LabLink {
    /// The nodes, such as n1
    #[arg(value_name = "NODE", required = true)]
    pub(crate) nodes: Vec<String>,
    /// The rate, such as 10mbit or 1gbit, or `unlimited`
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: String,
    #[command(flatten)]
    pub(crate) target: LabTarget,
    /// Check and say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Take a lab down, whole or not
///
/// Refuses while processes run in it, and names them; --kill ends them: SIGTERM, and SIGKILL for those that still run
/// after 5 s. No lab to take down is no failure.
#[derive(Args)]
#[command(after_long_help = "Examples:
  intarsia lab down
  intarsia lab down demo --kill
  intarsia lab down --stale                     what programs left that died")]
pub(crate) struct LabDown {
    /// The lab's name [default: INTARSIA_LAB, or the only lab]
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// End the processes that run in it, and no others
    #[arg(long)]
    pub(crate) kill: bool,
    /// All labs that were left by programs that died
    #[arg(long, conflicts_with = "name")]
    pub(crate) stale: bool,
    /// Say what would be done, but do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what was removed as JSON
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) json: bool,
}
