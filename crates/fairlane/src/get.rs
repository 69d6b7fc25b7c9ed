use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use load::get::{self, Exchange, Listener, Note};
use load::{Amount, Model, Plan, Planned, Target, Verification};
use measure::Protocol;
use measure::units::parse_duration;
use serde_json::json;

use crate::failure::Failure;
use crate::load::request_files::{self, Inputs};
use crate::output::{print, say};

/// Make one request and, with -v, show everything about it.
///
/// The body goes to standard output. With -v everything else goes to standard error: addresses, TLS, the certificate,
/// every frame with its content, the header fields as they were sent and received, sizes, and the time of each phase.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to ask for: http://… or https://…
    url: String,
    /// Show everything on standard error
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Protocol: h1c, h1, h2c, h2 or h3 [default: h2 for https, h1c for http]
    #[arg(long, value_name = "NAME")]
    protocol: Option<Protocol>,
    /// Make this many requests, one after the other, on the same connection as long as the server keeps it open
    #[arg(short = 'n', long = "requests", value_name = "N", default_value_t = 1)]
    requests: u64,
    /// Add a header field; Host replaces the URL's authority
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Request method [default: GET, with a body POST]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Body of the request; @FILE sends a file as it is, @- standard input
    #[arg(short = 'd', long, value_name = "BODY", default_value = "", hide_default_value = true)]
    data: String,
    /// Write the body to this file instead; - is standard output, even if it is a terminal and the body is binary
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Trust the certificates of this PEM file instead of those of the machine
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Connect to this address instead of the URL's; server name and authority stay
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    /// Longest time for making a connection, and for each request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
    /// Print everything as JSON; the body only goes where -o says
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples, with fairlane serve --port 8443 --tls-dir tls at the other end:
  fairlane get http://localhost:8443/api/test                                the body
  fairlane get -v https://localhost:8443/api/test --cacert tls/ca.pem        everything, over HTTP/2
  fairlane get -v https://localhost:8443/bytes/100000 --insecure --protocol h3 -o /dev/null
  fairlane get -v http://localhost:8443/echo -d 'a body' -n 2                two requests, one connection

Exit codes: 0 there was a complete response, whatever its status, 1 there was not, 2 bad usage, 3 no connection.";

/// Runs `fairlane get`.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = plan(&args)?;
    let mut show = Show {
        is_verbose: args.verbose,
        notes: args.json.then(Vec::new),
        body: Body::new(args.output.as_deref(), args.json)?,
    };
    let exchanges = get::get(&plan, &mut show)?;
    if let Some(failure) = show.body.failure {
        return Err(failure);
    }
    if let Some(notes) = show.notes {
        let url = plan.target.url().as_str();
        let report =
            json!({"schema": 1, "url": url, "protocol": plan.protocol, "exchanges": exchanges, "notes": notes});
        print(&format!("{report}\n"))?;
    }
    match exchanges.into_iter().find_map(|exchange| exchange.error) {
        Some(_) if show.body.is_closed => Ok(ExitCode::SUCCESS),
        Some(error) => Err(Failure::No(error)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Shows what happens as it happens.
struct Show {
    is_verbose: bool,
    /// What happened so far, if it is printed at the end.
    notes: Option<Vec<Note>>,
    body: Body,
}

impl Listener for Show {
    fn note(&mut self, note: Note) {
        if self.is_verbose {
            say(&get::line(&note));
        }
        if let Some(notes) = &mut self.notes {
            notes.push(note);
        }
    }

    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.body.take(bytes)
    }

    fn done(&mut self, exchange: &Exchange) {
        if self.is_verbose {
            say(&get::summary(exchange));
        }
    }
}

/// Where bodies go.
struct Body {
    sink: Box<dyn Write>,
    /// Whether bytes that are no text would disturb a terminal.
    wants_text: bool,
    /// Whether the reader has had enough, as in `| head -1`, which is no failure.
    is_closed: bool,
    failure: Option<Failure>,
}

impl Body {
    fn new(file: Option<&Path>, is_json: bool) -> Result<Body, Failure> {
        let is_stdout = file.is_none_or(|file| file == "-");
        let sink: Box<dyn Write> = match file {
            None if is_json => Box::new(io::sink()),
            Some(file) if !is_stdout => Box::new(
                File::create(file)
                    .map_err(|error| Failure::Usage(format!("cannot write to {}: {error}", file.display())))?,
            ),
            _ => Box::new(io::stdout()),
        };
        let wants_text = file.is_none() && !is_json && io::stdout().is_terminal();
        Ok(Body { sink, wants_text, is_closed: false, failure: None })
    }

    fn take(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        if self.wants_text && bytes.contains(&0) {
            self.failure = Some(Failure::Usage(
                "the body is binary and could disturb the terminal; use -o FILE, or -o - to print it all the same"
                    .to_owned(),
            ));
            return ControlFlow::Break(());
        }
        // Flushed, so that a slow body is seen as it comes.
        match self.sink.write_all(bytes).and_then(|()| self.sink.flush()) {
            Ok(()) => return ControlFlow::Continue(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
            Err(error) => self.failure = Some(Failure::Machine(format!("cannot write the body: {error}"))),
        }
        ControlFlow::Break(())
    }
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    let target = Target::parse(&args.url, args.connect_to.as_deref())?;
    let protocol = args.protocol.unwrap_or_else(|| Plan::default_protocol(&target));
    let default_method = if args.data.is_empty() { "GET" } else { "POST" };
    let request = Planned {
        method: args.method.clone().unwrap_or_else(|| default_method.to_owned()),
        headers: args.headers.iter().map(|text| request_files::field(text)).collect::<Result<_, _>>()?,
        body: request_files::body(&mut Inputs::default(), &args.data)?.into(),
        ..Planned::get(target.path())
    };
    let mut plan = Plan::new(target, protocol, Model::ClosedLoop, Amount::Requests(args.requests));
    plan.requests = vec![request];
    plan.connect_timeout = args.timeout;
    plan.timeout = args.timeout;
    plan.tls.verification = match &args.cacert {
        Some(file) => Verification::CaFile(file.clone()),
        None if args.insecure => Verification::Insecure,
        None => Verification::Roots,
    };
    Ok(plan)
}
