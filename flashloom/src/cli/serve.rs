//! `serve`: a drive for real clients.

use super::Answer;
use super::bench::Bench;
use super::daemon::Run;
use super::failure::Failure;
use super::file;
use super::live::{Event, Live, Powered, Use};
use super::metrics;
use super::output::note;
use super::secrets;
use super::ui;
use clap::{ArgGroup, Args, ValueEnum};
use engine::{Desk, Device, Handle, Show as Shown, Signals};
use fuse::{DRIVE_NAME, DriveFs, Show};
use nvme::tcp::Target;
use nvme::{Allowed, DriveBackend, Identity, Subsystem};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use units::Bytes;

/// Serve an emulated drive over NVMe/TCP, NBD, vhost-user or vfio-user, or as a file
///
/// --file exposes the drive as the file `drive` in a directory. A loop device over this file
/// (losetup --direct-io=on -b 4096) can hold any file system of the kernel.
///
/// --nvme-tcp serves the drive to other computers or virtual machines: nvme connect -t tcp -a HOST
/// -s PORT -n NQN. Every host that reaches the address may connect, unless --allow lists hosts or
/// --secrets requires authentication (nvme connect --dhchap-secret SECRET). Traffic is not
/// encrypted.
///
/// --nbd serves clients of the network block device protocol at unix:PATH or HOST:PORT and may be
/// repeated; --nbd-tls requires TLS. --vhost-user serves a virtual machine as vhost-user-blk.
///
/// --vfio-user attaches the drive to a virtual machine as a PCIe NVMe device (QEMU 10.1 or later)
/// with shared memory (memory-backend-memfd, share=on): -device
/// '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"SOCKET"}}'.
///
/// Several of these options may serve one drive at the same time.
///
/// While a drive is served, `flashloom drive stats|smart|cut|fault DRIVE` and `flashloom why DRIVE`
/// query or control the running server.
#[derive(Args)]
#[command(group(ArgGroup::new("front").required(true).multiple(true)))]
pub(crate) struct Serve {
    /// Drive file, as `flashloom drive create` makes it
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Expose the drive as a file in this directory until it is unmounted
    #[arg(long, value_name = "DIR", group = "front")]
    file: Option<PathBuf>,
    /// Serve NVMe/TCP at this address; a port alone listens on localhost
    #[arg(long, value_name = "ADDR", group = "front", value_parser = address)]
    nvme_tcp: Option<SocketAddr>,
    /// Serve NBD at a socket (unix:PATH) or an address
    #[arg(long, value_name = "ADDR", group = "front")]
    nbd: Vec<nbd::Address>,
    /// Require TLS for NBD, with the certificates in this directory
    ///
    /// PEM files with the names that nbdkit and QEMU use: server-cert.pem and server-key.pem, and
    /// ca-cert.pem if clients have to present a certificate.
    #[arg(long, value_name = "DIR", requires = "nbd")]
    nbd_tls: Option<PathBuf>,
    /// Serve a PCIe NVMe drive to a virtual machine at this socket
    #[arg(long, value_name = "SOCKET", group = "front")]
    vfio_user: Option<PathBuf>,
    /// Serve vhost-user-blk to a virtual machine at this socket
    ///
    /// In QEMU: -chardev socket,id=c,path=PATH -device vhost-user-blk-pci,chardev=c,num-queues=4
    /// with shared memory (memory-backend-memfd,share=on).
    #[arg(long, value_name = "PATH", group = "front")]
    vhost_user: Option<PathBuf>,
    /// Serve Prometheus metrics at this address; a port alone listens on localhost
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// Serve a live page of the drive at this address; a port alone listens on localhost
    #[arg(long, value_name = "ADDR", value_parser = address)]
    ui: Option<SocketAddr>,
    /// Print the drive's activity every second to standard error
    #[arg(long)]
    watch: bool,
    /// Accept only hosts with these qualified names
    #[arg(long, value_name = "NQN", requires = "nvme_tcp")]
    allow: Vec<String>,
    /// Accept only hosts that this file lists, after DH-HMAC-CHAP authentication
    ///
    /// Each line holds a host's qualified name, its secret (DHHC-1:…, as made by nvme
    /// gen-dhchap-key) and, for mutual authentication, the drive's secret (nvme connect
    /// --dhchap-ctrl-secret).
    #[arg(
        long,
        value_name = "FILE",
        requires = "nvme_tcp",
        conflicts_with = "allow"
    )]
    secrets: Option<PathBuf>,
    /// Qualified name of the drive [default: nqn.2026-11.local.flashloom: plus its name]
    #[arg(long, value_name = "NQN", requires = "nvme_tcp", value_parser = qualified)]
    nqn: Option<String>,
    /// Insert the address-remapping layer, which turns all writes into sequential ones
    ///
    /// An empty drive gets a new layer. Writes are durable once a flush completes, also on a drive
    /// with power-loss protection.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "open"
    )]
    remap: Option<Layer>,
    #[command(flatten)]
    run: Run,
}

/// Ways to open an existing remapping layer.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Open an intact layer; refuse a damaged one
    Open,
    /// Open a damaged layer read-only, and report the damage
    Salvage,
}

/// Sockets on which `serve` accepts clients.
struct Listeners {
    target: Option<Target>,
    slot: Option<nvme::pci::Server>,
    servers: Vec<nbd::Server>,
    machines: Option<vhost::Server>,
}

impl Listeners {
    /// Stops all servers, and closes their connections.
    fn close(self) {
        self.target.into_iter().for_each(Target::stop);
        self.slot.into_iter().for_each(nvme::pci::Server::stop);
        self.servers.into_iter().for_each(nbd::Server::close);
        self.machines.into_iter().for_each(vhost::Server::close);
    }
}

/// Parses an address, or a port on the local computer.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let address = port.map(local).or_else(|_| text.parse());
    address.map_err(|_| "expected an address such as 127.0.0.1:4420, or a port".to_owned())
}

/// Parses a qualified name of at most 223 characters.
pub(crate) fn qualified(text: &str) -> Result<String, String> {
    let fits = text.starts_with("nqn.") && text.len() <= 223;
    let is_plain = text.chars().all(|c| c.is_ascii_graphic());
    let name = (fits && is_plain).then(|| text.to_owned());
    name.ok_or_else(|| "expected a name such as nqn.2026-01.org.example:drive".to_owned())
}

impl Serve {
    pub(crate) fn run(&self) -> Answer {
        self.run.go(|signals| self.serve(signals))
    }

    fn serve(&self, signals: Signals) -> Result<(), Failure> {
        file::wait_for_others(&self.path)?;
        super::chunks::mapped(&self.path, &Bench::open(&self.path)?.config)?;
        let shown = match self.remap {
            None => Shown::Drive,
            Some(Layer::Open) => Shown::Remapped,
            Some(Layer::Salvage) => Shown::Salvaged,
        };
        // Invalid options are reported before the drive is powered.
        let allowed = self.allowed()?;
        let tls = self.nbd_tls.as_deref().map(nbd::Tls::read).transpose();
        let tls = tls.map_err(|error| Failure::new(error.to_string()))?;
        let named = allowed != Allowed::Anyone && !tls.as_ref().is_some_and(nbd::Tls::asks);
        if let (true, Some(open)) = (named, self.nbd.iter().find(|a| is_open(a))) {
            return Err(Failure::new(format!(
                "{open}: --allow and --secrets do not restrict NBD clients, which have no \
                 qualified name; expected an address of this computer, a unix socket, or --nbd-tls \
                 with a ca-cert.pem"
            )));
        }
        let powered = Powered::default();
        self.show(&powered)?;
        let (tell, told) = channel();
        let (mut signals, mut outcome) = (Some(signals), None);
        let mut live = None;
        loop {
            let listener = self.nvme_tcp.map(bind).transpose()?;
            let identity = self.identity(allowed.clone());
            let started = DriveBackend::start(&self.path, self.run.pace()?, shown, identity);
            let (engine, drive) = started.map_err(|e| Failure::at(&self.path, e))?;
            powered.set(Some(drive.part(Subsystem::device)));
            if signals.is_some() {
                live = Live::start(&self.path, &powered, self.used(&tell));
            }
            let listening = self.listen(listener, tls.as_ref(), &drive);
            let served = listening.and_then(|listeners| {
                let again = outcome.take();
                let ended = self.wait(&drive, &listeners, signals.take(), again, (&tell, &told));
                listeners.close();
                ended
            });
            powered.set(None);
            // Clients that still use the drive get errors from here on.
            drive.stop();
            let closed = engine.join()?;
            closed.map_err(|e| Failure::at(&self.path, e))?;
            outcome = served?;
            if outcome.is_none() {
                drop(live);
                return Ok(());
            }
        }
    }

    /// Starts the observers of the drive: metrics, page and terminal.
    fn show(&self, powered: &Powered) -> Result<(), Failure> {
        if let Some(listener) = self.metrics.map(bind).transpose()? {
            metrics::serve(listener, powered.clone())?;
        }
        if let Some(listener) = self.ui.map(bind).transpose()? {
            note(&format!(
                "flashloom: the page is at http://{}/",
                listener.local_addr()?
            ));
            ui::serve(listener, powered.clone())?;
        }
        if self.watch {
            metrics::watch(powered.clone())?;
        }
        Ok(())
    }

    /// The hosts that may use the drive by NVMe over TCP.
    fn allowed(&self) -> Result<Allowed, Failure> {
        if let Some(path) = &self.secrets {
            return secrets::read(path).map(Allowed::Proved);
        }
        Ok(match &self.allow[..] {
            [] => Allowed::Anyone,
            names => Allowed::Only(names.iter().cloned().collect()),
        })
    }

    /// Qualified name of the drive.
    fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let stem: String = stem.chars().map(plain).take(64).collect();
        let own = || format!("nqn.2026-11.local.flashloom:{stem}");
        self.nqn.clone().unwrap_or_else(own)
    }

    /// Names of the drive, and the hosts that may use it.
    fn identity(&self, allowed: Allowed) -> Identity {
        Identity {
            nqn: self.name(),
            serial: serial(&self.path),
            model: "Flashloom".to_owned(),
            allowed,
        }
    }

    /// Starts the requested servers.
    fn listen(
        &self,
        listener: Option<TcpListener>,
        tls: Option<&nbd::Tls>,
        drive: &Handle<Subsystem<DriveBackend>>,
    ) -> Result<Listeners, Failure> {
        let target = listener.map(|listener| Target::start(listener, drive));
        let mut listeners = Listeners {
            target: target.transpose()?,
            slot: None,
            servers: Vec::new(),
            machines: None,
        };
        if let Err(failure) = self.listen_beside(tls, drive, &mut listeners) {
            listeners.close();
            return Err(failure);
        }
        Ok(listeners)
    }

    /// Starts the servers for virtual machines and for clients of the network block device.
    fn listen_beside(
        &self,
        tls: Option<&nbd::Tls>,
        drive: &Handle<Subsystem<DriveBackend>>,
        listeners: &mut Listeners,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.vfio_user {
            let slot = nvme::pci::Server::start(path, drive.clone());
            listeners.slot = Some(slot.map_err(|error| Failure::at(path, error))?);
        }
        if let Some(path) = &self.vhost_user {
            let machines = vhost::Server::start(path, &drive.part(Subsystem::device));
            listeners.machines = Some(machines.map_err(|error| Failure::at(path, error))?);
        }
        for address in &self.nbd {
            let (device, name) = (
                drive.part(Subsystem::device),
                self.path.display().to_string(),
            );
            let made = move |desk: &Desk<Device>| nbd::Drive::new(desk, &name);
            let server = nbd::Server::start(address, tls, &device, made);
            let server = server.map_err(|error| Failure::new(format!("{address}: {error}")))?;
            listeners.servers.push(server);
        }
        Ok(())
    }

    /// Addresses at which clients find the drive.
    fn places(&self, listeners: &Listeners) -> Vec<String> {
        let target = listeners.target.iter();
        let target = target.map(|t| format!("{} at {} (NVMe/TCP)", self.name(), t.address()));
        let slot = listeners.slot.iter();
        let slot = slot.map(|slot| format!("{} (vfio-user)", slot.path().display()));
        let servers = listeners.servers.iter();
        let over = self.nbd_tls.as_ref().map_or("NBD", |_| "NBD over TLS");
        let servers = servers.map(|server| format!("{} ({over})", server.address()));
        let machines = self.vhost_user.iter();
        let machines = machines.map(|path| format!("{} (vhost-user-blk)", path.display()));
        let virtual_machines = slot.chain(machines);
        target.chain(virtual_machines).chain(servers).collect()
    }

    /// The use of the drive, with the receiver of power cuts. A drive shown as a file cannot come
    /// back after one: the kernel has it open.
    fn used(&self, tell: &Sender<Event>) -> Use {
        match self.file {
            None => Use::Clients(tell.clone()),
            Some(_) => Use::File,
        }
    }

    /// Shows the drive as requested, and waits for the end: `None`, or the sender that reports the
    /// return of power after a cut. `again` is the sender of the previous cut.
    fn wait(
        &self,
        drive: &Handle<Subsystem<DriveBackend>>,
        listeners: &Listeners,
        signals: Option<Signals>,
        again: Option<Sender<()>>,
        (tell, told): (&Sender<Event>, &Receiver<Event>),
    ) -> Result<Option<Sender<()>>, Failure> {
        let device = drive.part(Subsystem::device);
        let ask = |device: Rc<Device>| async move {
            let damage = device.damage().iter().map(ToString::to_string);
            (device.capacity(), damage.collect::<Vec<String>>())
        };
        let (size, damage) = device.ask(ask)?;
        let name = self.path.display().to_string();
        damage
            .iter()
            .for_each(|what| note(&format!("{name}: {what}")));
        let mut places = self.places(listeners);
        let mut mounted = None;
        match (&self.file, signals) {
            (Some(dir), Some(signals)) => {
                let filesystem = DriveFs::new(device, name.clone(), size);
                places.push(dir.join(DRIVE_NAME).display().to_string());
                mounted = Some(fuse::mount(filesystem, dir, Show::Drive(&name), signals)?);
            }
            (None, Some(signals)) => {
                let tell = tell.clone();
                signals.watch(move |_| tell.send(Event::Signal).is_ok())?;
            }
            (_, None) => {}
        }
        match again {
            // The client that requested the power cut may have left.
            Some(again) => drop(again.send(())),
            None => self.run.tell(&self.sentence(size, &places)),
        }
        match mounted {
            Some(mounted) => self.run.wait(mounted, &self.path).map(|()| None),
            None => Ok(match told.recv()? {
                Event::Signal => None,
                Event::Cut(again) => Some(again),
            }),
        }
    }

    /// A sentence with the drive, its addresses, and the end of service.
    fn sentence(&self, size: u64, places: &[String]) -> String {
        let until = self.file.as_ref().map_or(String::new(), |dir| {
            format!("{} is unmounted or ", dir.display())
        });
        format!(
            "{} ({}) is {}; it is served until {until}this command is interrupted",
            self.path.display(),
            Bytes(size),
            places.join(" and ")
        )
    }
}

/// Whether other computers can connect to an address.
fn is_open(address: &nbd::Address) -> bool {
    matches!(address, nbd::Address::Tcp(address) if !address.ip().is_loopback())
}

/// Opens a listener at `address`.
pub(super) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|e| Failure::new(format!("{address}: {e}")))
}

/// The serial number of the drive in the file at `path`: equal each time.
fn serial(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // FNV-1a hash of the path.
    let hash = whole
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("FL{hash:016X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_computer_only() {
        let parsed = |text: &str| address(text).map(|address| address.to_string());
        for text in ["4420", ":4420", "127.0.0.1:4420"] {
            assert_eq!(parsed(text).as_deref(), Ok("127.0.0.1:4420"));
        }
        assert_eq!(parsed("0.0.0.0:1").as_deref(), Ok("0.0.0.0:1"));
        assert_eq!(parsed("[::1]:1").as_deref(), Ok("[::1]:1"));
        for text in ["", "here", "1.2.3.4", "70000", "1.2.3.4:70000"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_addresses_beyond_loopback_are_open() {
        let parsed = |text: &str| text.parse::<nbd::Address>().expect("an address");
        for text in ["10809", "unix:n.sock", "127.0.0.2:1", "[::1]:1"] {
            assert!(!is_open(&parsed(text)), "{text}");
        }
        for text in ["0.0.0.0:10809", "192.0.2.1:1", "[::]:1"] {
            assert!(is_open(&parsed(text)), "{text}");
        }
    }

    #[test]
    fn names_are_qualified() {
        assert!(qualified("nqn.2026-01.org.example:d").is_ok());
        for text in ["d", "nqn. x", &format!("nqn.{}", "x".repeat(220))] {
            assert!(qualified(text).is_err(), "{text}");
        }
    }
}
