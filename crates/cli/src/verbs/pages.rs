//! `completions` and `man`: pages made from the command line's own definition.

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn completions(arguments: &Completions) -> Outcome<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "intarsia", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}

pub(crate) fn man(arguments: &Man) -> Outcome<Exit> {
    let Some(dir) = &arguments.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command())
            .render(&mut page)
            .map_err(|e| Failure::io("manual page", &e))?;
        output::data(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .map_err(|e| Failure::io(format!("manual pages in {}", dir.display()), &e))?;
    output::message(&format!("manual pages written to {}", dir.display()));
    Ok(Exit::Ok)
}
