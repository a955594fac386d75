//! Elections of etcd, as its client offers them, and a throw-away etcd.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use etcd_client::{Client, ResignOptions};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::contend::{Event, Options, say};

/// Of the lease that all names of a replica hang on, in seconds.
const LEASE: i64 = 15;

/// Campaigns for ever: one lease for the replica, one campaign a name that waits at the server.
pub async fn contend(options: &Options) -> anyhow::Result<()> {
    let mut client = Client::connect([&options.url], None).await?;
    let lease = client.lease_grant(LEASE, None).await?.id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    say(Event::Started, 0);
    for number in 0..options.names {
        let (client, options) = (client.clone(), options.clone());
        tokio::spawn(async move {
            if let Err(error) = campaign(client, &options, number, lease).await {
                eprintln!("error: {error:#}");
                std::process::exit(1);
            }
        });
    }
    loop {
        // As often as the client of etcd's own does.
        tokio::time::sleep(Duration::from_secs(LEASE.unsigned_abs() / 3)).await;
        keeper.keep_alive().await?;
        answers.message().await?.context("the lease is lost")?;
    }
}

async fn campaign(mut client: Client, options: &Options, number: usize, lease: i64) -> anyhow::Result<()> {
    let name = options.name(number);
    loop {
        let mut won = client.campaign(name.as_str(), "", lease).await?;
        let leader = won.take_leader().context("whoever won has a key")?;
        say(Event::Elected, number);
        options.work().await;
        say(Event::Returned, number);
        client.resign(Some(ResignOptions::new().with_leader(leader))).await?;
    }
}

/// An etcd of one member, with its data on the disk. Gone when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
    _data: TempDir,
}

impl Server {
    /// Starts it and waits until it answers.
    pub async fn start() -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let port = || Ok::<_, std::io::Error>(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let (clients, peers) = (port()?, port()?);
        let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(data.path())
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("no `etcd`: install it (Debian: `apt-get install etcd-server`)")?;
        let server = Self { child, address: clients, _data: data };
        for _ in 0..200 {
            if server.messages().await.is_ok() {
                return Ok(server);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("etcd does not answer")
    }

    /// How many messages it has had from clients.
    pub async fn messages(&self) -> anyhow::Result<u64> {
        let address = self.address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let received = text.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
        let counts = received.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        anyhow::ensure!(text.contains("grpc_server_msg_received_total"), "no metrics yet");
        Ok(counts.sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
