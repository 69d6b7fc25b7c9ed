use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use analysis::{Plan, PlannedLink, Summary};
use experiment::{Ending, Error, Experiment, OriginKind, Programs, RunDirectory, Runner};
use link::profile::Profile;
use measure::{Environment, Protocol};

use crate::failure::Failure;
use crate::live::Live;
use crate::output;

/// Race protocols over emulated links and say which is fastest, with an interval.
///
/// Without arguments: a page of 30 objects of 10 kB over HTTP/1.1, HTTP/2 and HTTP/3, on three mobile links, from the
/// built-in origin. Each trial runs in network namespaces of its own; no root is needed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of a built-in experiment, or an experiment file (TOML)
    #[arg(value_name = "EXPERIMENT", default_value = "page", conflicts_with = "resume")]
    experiment: PathBuf,

    /// Protocols to race, the same one twice for a test of the race itself [default: h1,h2,h3]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    protocols: Vec<Protocol>,

    /// Links: profiles with overrides [default: fast-4g,slow-4g,'slow-4g loss=2%']
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    link: Vec<String>,

    /// Random loss set on every link, in place of its own: 2%, a list 0,1%,5% or a range 0..10%
    #[arg(long, value_name = "SHARES")]
    loss: Option<String>,

    /// Race without emulated links, over loopback or to --url: this shows CPU cost, not the network
    #[arg(long, conflicts_with_all = ["link", "loss"])]
    no_link: bool,

    /// Rounds: trials of every condition [default: 15, or as many beyond 7 as fit in 100 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// As many rounds as fit in half a minute, but at least 3 however long they take
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,

    /// Seed of everything random [default: 7]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Trials that run at once [default: 4, at most two per processor; 1 without emulated links]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    /// Race a page of your own: its URL inside the lab (host `origin`) with --origin, else of a running server
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Command that starts your own server inside the origin's namespace
    #[arg(long, value_name = "CMD")]
    origin: Option<String>,

    /// CA certificate (PEM) to trust besides the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,

    /// Do not check the server's certificate
    #[arg(long)]
    insecure: bool,

    /// Run directory [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,

    /// Go on with the interrupted run in DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "protocols", "link", "loss", "no_link", "rounds", "quick", "seed", "jobs", "url", "origin", "cacert", "insecure",
    ])]
    resume: Option<PathBuf>,

    /// Print the summary as JSON to standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = r#"Examples:
  fairlane race                                          the built-in race, about a minute
  fairlane race --quick --json                           half a minute, for scripts
  fairlane race --link 'rate=10mbit rtt=100ms' --loss 0..3%
  fairlane race --protocols h2,h2                        a test of the race: the answer must be no difference
  fairlane race --origin "nginx -g 'daemon off;' -c my.conf" --url https://origin:8443/ --cacert ca.pem --protocols h1,h2
  fairlane race --no-link --url https://localhost:8443/ --insecure
  fairlane race --resume runs/page-20270101-120000

Exit codes: 0 done, 1 no valid result, 2 bad usage or input, 3 this machine or the origin cannot do it, 130 interrupted."#;

/// The built-in experiments by name.
const BUILT_IN: [(&str, &str); 1] = [("page", include_str!("../../../experiments/page.toml"))];

/// `--quick`: the time in which rounds may begin and end, leaving some of 30 s for start and report.
const QUICK: &str = "23s";

/// Runs `fairlane race`.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let json = args.json;
    let stop = Arc::new(AtomicBool::new(false));
    crate::interrupt::watch(&stop)?;
    let (mut runner, repeat) = prepare(args)?;
    let ending = match runner.preflight(&stop) {
        Ok(ending) => ending,
        Err(error) => {
            if runner.trials().is_empty() {
                runner.discard();
            }
            return Err(Failure::from(error));
        }
    };
    if ending == Ending::Interrupted && runner.trials().is_empty() {
        runner.discard();
        return Err(Failure::Interrupted("interrupted before the first trial; nothing was kept".to_owned()));
    }
    let plan = plan(runner.experiment(), &repeat);
    let environment = Environment::read();
    let mut live = Live::new(&plan);
    let ending = match ending {
        Ending::Complete => runner.run(&stop, &mut |progress| live.show(&plan, progress, &environment)),
        Ending::Interrupted => Ok(ending),
    };
    live.finish();
    let summary = analysis::summarize(&plan, runner.trials(), &environment);
    // What was measured before a fault is reported all the same; the fault decides the exit code.
    let kept = keep(&runner, &summary);
    show(&runner, &summary, json)?;
    match ending {
        Err(error) => Err(Failure::from(error)),
        Ok(_) if kept.is_err() => Err(Failure::from(kept.unwrap_err())),
        Ok(Ending::Interrupted) => {
            let directory = runner.directory().path().display();
            Err(Failure::Interrupted(format!("interrupted; go on with fairlane race --resume {directory}")))
        }
        Ok(Ending::Complete) if summary.comparisons.iter().all(|comparison| comparison.rounds == 0) => {
            Err(Failure::No("no trial gave a valid result: see the warnings".to_owned()))
        }
        Ok(Ending::Complete) => Ok(ExitCode::SUCCESS),
    }
}

/// Reads or resolves the experiment and takes its run directory; gives the command line that repeats the race, too.
fn prepare(args: Args) -> Result<(Runner, String), Failure> {
    let fairlane = std::env::current_exe()
        .map_err(|error| Failure::Machine(format!("cannot find the fairlane program itself: {error}")))?;
    let (directory, experiment) = match &args.resume {
        Some(path) => {
            let (directory, experiment) = RunDirectory::open(path)?;
            require_lab(&experiment)?;
            (directory, experiment)
        }
        None => {
            let experiment = resolve(&args)?;
            require_lab(&experiment)?;
            let path = args.out.unwrap_or_else(|| unused(&format!("runs/{}-{}", experiment.name, timestamp())));
            (RunDirectory::create(&path, &experiment)?, experiment)
        }
    };
    let tls = directory.tls();
    if experiment.origin.kind == OriginKind::BuiltIn
        && let Err(error) = origin::tls::ensure(&tls, &[])
    {
        if args.resume.is_none() {
            directory.discard();
        }
        return Err(Failure::Machine(error.to_string()));
    }
    let file = directory.path().join("experiment.toml").display().to_string();
    let file = shlex::try_quote(&file).map_or_else(|_| file.clone(), |quoted| quoted.into_owned());
    let runner = Runner::new(experiment, directory, Programs { fairlane, tls })?;
    Ok((runner, format!("fairlane race {file}")))
}

/// A path at which there is nothing yet: races may start in the same second.
fn unused(path: &str) -> PathBuf {
    let numbered = (2..).map(|number| format!("{path}-{number}"));
    let mut candidates = std::iter::once(path.to_owned()).chain(numbered).map(PathBuf::from);
    candidates.find(|path| !path.exists()).expect("numbers do not run out")
}

/// The experiment that the flags ask for.
fn resolve(args: &Args) -> Result<Experiment, Failure> {
    let built_in = BUILT_IN.iter().find(|(name, _)| args.experiment.as_os_str() == *name);
    let mut experiment = match built_in {
        Some((name, text)) => Experiment::parse(name, text)?,
        None if !args.experiment.exists() => {
            let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            return Err(Failure::Usage(format!(
                "there is no built-in experiment and no file '{}': built in are {}",
                args.experiment.display(),
                names.join(", ")
            )));
        }
        None => Experiment::read(&args.experiment)?,
    };
    if !args.protocols.is_empty() {
        experiment.protocols = args.protocols.clone();
    }
    if !args.link.is_empty() {
        experiment.links = args.link.clone();
    }
    if args.no_link || (args.url.is_some() && args.origin.is_none()) {
        experiment.links = Vec::new();
        experiment.jobs = 1;
    }
    if let Some(losses) = &args.loss {
        let losses = experiment::parse_losses(losses).map_err(|message| Failure::Usage(format!("--loss {message}")))?;
        experiment = experiment.with_losses(&losses);
    }
    if let Some(rounds) = args.rounds {
        experiment.rounds.at_least = rounds;
        experiment.rounds.at_most = rounds;
        experiment.rounds.within = None;
    }
    if args.quick {
        experiment.rounds = experiment::RoundLimits { at_least: 3, at_most: 100, within: Some(QUICK.to_owned()) };
    }
    if let Some(seed) = args.seed {
        experiment.seed = seed;
    }
    // More trials at once than this would wait for each other instead of for the network.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    experiment.jobs = args.jobs.unwrap_or(experiment.jobs.min(2 * processors));
    if let Some(url) = &args.url {
        experiment.workload.url = Some(url.clone());
        experiment.workload.description = format!("page fetch from cold: {url} and the objects it embeds");
        experiment.origin.kind = OriginKind::Running;
    }
    if let Some(command) = &args.origin {
        experiment.origin.kind = OriginKind::Command;
        experiment.origin.command = Some(command.clone());
    }
    if let Some(file) = &args.cacert {
        let path = file.canonicalize().map_err(|error| {
            Failure::Usage(format!("--cacert {}: {error}; expected a file with a certificate in PEM", file.display()))
        })?;
        experiment.origin.cacert = Some(path);
    }
    experiment.origin.insecure |= args.insecure;
    experiment.check().map_err(Failure::Usage)?;
    Ok(experiment)
}

/// A race with links needs namespaces; where they are forbidden, say by what and offer the race without.
fn require_lab(experiment: &Experiment) -> Result<(), Failure> {
    if experiment.links.is_empty() {
        return Ok(());
    }
    link::availability().map_err(|error| {
        Failure::Machine(format!(
            "{error}\nWithout emulated links the race runs all the same, over loopback, and compares CPU cost only: \
             fairlane race --no-link"
        ))
    })
}

/// What analysis needs to know about the experiment.
fn plan(experiment: &Experiment, repeat: &str) -> Plan {
    let link = |text: &String| {
        let profile = Profile::parse(text).expect("the experiment was checked");
        PlannedLink { name: text.clone(), title: profile.title(), detail: profile.describe() }
    };
    let no_link = || PlannedLink {
        name: experiment::NO_LINK.to_owned(),
        title: "No emulated link".to_owned(),
        detail: "the machine's own network".to_owned(),
    };
    let links: Vec<PlannedLink> = experiment.links.iter().map(link).collect();
    Plan {
        name: experiment.name.clone(),
        question: experiment.question.clone(),
        workload: experiment.workload.description.clone(),
        metric: "page load time".to_owned(),
        entrants: experiment.protocols.clone(),
        has_link: !links.is_empty(),
        links: if links.is_empty() { vec![no_link()] } else { links },
        rounds: experiment.rounds.at_least,
        seed: experiment.seed,
        practical: experiment.practical,
        origin: match experiment.origin.kind {
            OriginKind::BuiltIn => "built-in origin".to_owned(),
            OriginKind::Command => experiment.origin.command.clone().unwrap_or_default(),
            OriginKind::Running => experiment.workload.url.clone().unwrap_or_default(),
        },
        repeat: repeat.to_owned(),
    }
}

fn keep(runner: &Runner, summary: &Summary) -> Result<(), Error> {
    let directory = runner.directory();
    let json = serde_json::to_string_pretty(summary).expect("a summary can always be written as JSON");
    directory.write("summary.json", &(json + "\n"))?;
    directory.write("trials.csv", &report::csv(runner.trials()))?;
    directory.write("report.html", &report::html(summary, runner.trials()))
}

fn show(runner: &Runner, summary: &Summary, json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string_pretty(summary).expect("a summary can always be written as JSON");
        return output::print(&(text + "\n"));
    }
    let tables = report::terminal(summary, output::style());
    let report = runner.directory().path().join("report.html");
    output::print(&format!("{tables}  report  {}\n  again   {}\n", report.display(), summary.plan.repeat))
}

/// The time of the start in UTC, so that run directories sort.
fn timestamp() -> String {
    jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string()
}
