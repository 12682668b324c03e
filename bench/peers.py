"""File systems over many hosts that others made, set up on the hosts of a lab for benchmarks.

All data lies in the lab's directory. No configuration of this machine is read or changed.
"""

import os
import shutil
import uuid

from labs import Lab, is_mounted


class MooseFs(Lab):
    """One master, a chunk server on every host, one copy of everything."""

    needs = {
        "mfsmaster": "moosefs-master",
        "mfschunkserver": "moosefs-chunkserver",
        "mfsmount": "moosefs-client",
    }

    def servers(self):
        """The hosts with chunk servers."""
        return self.numbers()

    def start(self):
        """Master, chunk servers, mounts."""
        master = self.addresses[1]
        data = self.dir / "master"
        data.mkdir()
        shutil.copy("/var/lib/mfs/metadata.mfs.empty", data / "metadata.mfs")
        (data / "exports.cfg").write_text("* / rw,alldirs,maproot=0:0\n* . rw\n")
        user = "WORKING_USER = root\nWORKING_GROUP = root\nNICE_LEVEL = 0\n"
        (data / "master.cfg").write_text(f"{user}DATA_PATH = {data}\nEXPORTS_FILENAME = {data}/exports.cfg\n")
        self.background(1, "mfsmaster", "-f", "-c", data / "master.cfg", "start")
        self.wait("a master", lambda: self.listens(1, 9421))
        for n in self.servers():
            chunks = self.dir / f"chunks{n}"
            (chunks / "disk").mkdir(parents=True)
            (chunks / "hdd.cfg").write_text(f"{chunks}/disk\n")
            (chunks / "chunk.cfg").write_text(
                f"{user}DATA_PATH = {chunks}\nHDD_CONF_FILENAME = {chunks}/hdd.cfg\n"
                f"MASTER_HOST = {master}\nMASTER_RECONNECTION_DELAY = 1\n"
            )
            self.background(n, "mfschunkserver", "-f", "-c", chunks / "chunk.cfg", "start")
        for n in self.servers():
            self.wait(f"chunk server {n}", lambda n=n: self.listens(n, 9422))
        for n in self.numbers():
            self.mount(n).mkdir()
            self.background(n, "mfsmount", "-f", "-H", master, self.mount(n))
            self.wait(f"mount {n}", lambda n=n: is_mounted(self.mount(n)))
        self.wait("space", lambda: os.statvfs(self.mount(1)).f_bfree > 0)

    def listens(self, host, port):
        """Whether somebody listens on a port of a host."""
        return f":{port:04X} " in self.on(host, "cat", "/proc/net/tcp")


class Central(MooseFs):
    """All bytes and names on the first host: one server for everybody."""

    def servers(self):
        """The first alone."""
        return [1]


class GlusterFs(Lab):
    """A volume over one brick a host; each file on one of them."""

    needs = {
        "glusterd": "glusterfs-server",
        "gluster": "glusterfs-cli",
        "glusterfs": "glusterfs-client",
    }
    layout = ()

    def start(self):
        """Management daemons, the volume, mounts. Each daemon has `/var/lib/glusterd` to itself."""
        for n in self.numbers():
            home = self.dir / f"gluster{n}"
            for name in ("lib", "run", "log", "brick"):
                (home / name).mkdir(parents=True)
            (home / "glusterd.vol").write_text(
                "volume management\n type mgmt/glusterd\n"
                " option working-directory /var/lib/glusterd\n option transport-type socket\n"
                f" option glusterd-sockfile {home}/glusterd.sock\n"
                " option transport.socket.listen-port 24007\n option ping-timeout 0\n"
                " option transport.address-family inet\n option transport.socket.keepalive-time 10\n"
                " option transport.socket.keepalive-interval 2\n option transport.tcp-user-timeout 0\n"
                f" option transport.socket.bind-address {self.addresses[n]}\nend-volume\n"
            )
            # No name server can be reached from a lab.
            (home / "hosts").write_text(
                "127.0.0.1 localhost\n" + "".join(f"{self.addresses[m]} n{m}\n" for m in self.numbers())
            )
            (home / "resolv.conf").touch()
            binds = " && ".join(
                f"mount --bind {home}/{name} {place}"
                for name, place in (
                    ("lib", "/var/lib/glusterd"),
                    ("run", "/var/run/gluster"),
                    ("log", "/var/log/glusterfs"),
                    ("hosts", "/etc/hosts"),
                    ("resolv.conf", "/etc/resolv.conf"),
                )
            )
            daemon = f"exec glusterd -N -f {home}/glusterd.vol -p {home}/glusterd.pid"
            self.background(n, "unshare", "-m", "sh", "-c", f"{binds} && {daemon}")
        for n in self.numbers():
            self.wait(f"glusterd {n}", lambda n=n: self.answers(n))
        for n in self.numbers()[1:]:
            self.gluster("peer", "probe", self.addresses[n])
        for n in self.numbers():
            self.wait(f"the peers of {n}", lambda n=n: self.count_peers(n) == self.hosts - 1)
        bricks = [f"{self.addresses[n]}:{self.dir}/gluster{n}/brick" for n in self.numbers()]
        self.gluster("volume", "create", "v", *self.layout, *bricks, "force")
        self.gluster("volume", "start", "v")
        for n in self.numbers():
            self.mount(n).mkdir()
            server = f"--volfile-server={self.addresses[n]}"
            log = f"--log-file={self.dir}/gluster{n}/mount.log"
            self.on(n, "glusterfs", server, "--volfile-id=v", log, self.mount(n))
            self.wait(f"mount {n}", lambda n=n: is_mounted(self.mount(n)))

    def gluster(self, *words, host=1, check=True):
        """Tell the daemon of a host."""
        socket = f"--glusterd-sock={self.dir}/gluster{host}/glusterd.sock"
        return self.on(host, "gluster", "--mode=script", socket, *words, check=check)

    def answers(self, host):
        """Whether the daemon of a host answers."""
        return "localhost" in self.gluster("pool", "list", host=host, check=False)

    def count_peers(self, host):
        """Peers of a host that are joined and connected."""
        said = self.gluster("peer", "status", host=host, check=False)
        return said.count("Peer in Cluster (Connected)")


class GlusterReplicated(GlusterFs):
    """Two copies of everything."""

    layout = ("replica", "2")


class GlusterDispersed(GlusterFs):
    """Erasure-coded, any one brick may be lost."""

    @property
    def layout(self):
        """All bricks in one set."""
        return ("disperse", str(self.hosts), "redundancy", "1")


class JuiceFs(Lab):
    """Names and bodies in one Redis on the first host, with the caches that are the default: hosts may see what was."""

    needs = {"redis-server": "redis-server"}
    built = {"juicefs": "go install github.com/juicedata/juicefs"}
    port = 6399
    options = ()

    def start(self):
        """The server, the volume, mounts."""
        server = f"{self.addresses[1]}:{self.port}"
        (self.dir / "redis").mkdir()
        place = ("--dir", self.dir / "redis", "--save", "", "--protected-mode", "no")
        self.background(1, "redis-server", "--port", self.port, "--bind", "0.0.0.0", *place)
        ping = ("redis-cli", "-p", self.port, "ping")
        self.wait("Redis", lambda: "PONG" in self.on(1, *ping, check=False))
        names, bodies = f"redis://{server}/1", f"redis://{server}/2"
        store = ("--storage", "redis", "--bucket", bodies, "--trash-days", "0")
        self.on(1, "juicefs", "format", *store, names, "bench")
        for n in self.numbers():
            self.mount(n).mkdir()
            place = ("--cache-dir", self.dir / f"cache{n}", "--log", self.dir / f"juicefs{n}.log")
            words = ("juicefs", "mount", "--no-usage-report", *place, *self.options, names, self.mount(n))
            self.background(n, *words)
            self.wait(f"mount {n}", lambda n=n: is_mounted(self.mount(n)))


class JuiceFsCoherent(JuiceFs):
    """The same without caches of names and attributes, so that hosts see what others did."""

    options = ("--attr-cache", "0", "--entry-cache", "0", "--dir-entry-cache", "0")


class CephFs(Lab):
    """A monitor and a metadata server on the first host, an object server on every host, one copy, no authentication."""

    needs = {
        "ceph-mon": "ceph-mon",
        "ceph-osd": "ceph-osd",
        "ceph-mds": "ceph-mds",
        "ceph": "ceph-common",
        "ceph-fuse": "ceph-fuse",
    }
    configuration = """
[global]
fsid = {fsid}
mon host = {monitor}
public addr =
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = true
run dir = {dir}
admin socket = {dir}/$cluster-$name.$pid.asok
log file = {dir}/$cluster-$name.log
log to stderr = false
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = bluestore
bluestore block size = 4294967296
osd memory target = 1073741824
mon data avail warn = 1
mon data avail crit = 0
"""

    def start(self):
        """Monitor, object servers, metadata server, mounts."""
        fsid = uuid.uuid4()
        self.conf = self.dir / "ceph.conf"
        monitor = self.addresses[1]
        self.conf.write_text(self.configuration.format(fsid=fsid, monitor=monitor, dir=self.dir))
        first = self.dir / "monmap"
        self.on(1, "monmaptool", "--create", "--add", "a", monitor, "--fsid", fsid, first)
        data = ("--mon-data", self.dir / "mon")
        mon = ("ceph-mon", "-c", self.conf, "-i", "a", *data)
        (self.dir / "mon").mkdir()
        self.on(1, *mon, "--mkfs", "--monmap", first)
        self.background(1, *mon, "-f", "--public-addr", monitor)
        self.wait("the monitor", lambda: self.ceph("mon", "stat", check=False))
        for n in self.numbers():
            one = uuid.uuid4()
            number = self.ceph("osd", "new", one).strip()
            place = self.dir / f"osd{n}"
            place.mkdir()
            words = ("ceph-osd", "-c", self.conf, "-i", number, "--osd-data", place)
            self.on(n, *words, "--mkfs", "--osd-uuid", one)
            self.background(n, *words, "-f", "--public-addr", self.addresses[n])
        up = f"{self.hosts} up"
        self.wait("object servers", lambda: up in self.ceph("osd", "stat", check=False))
        self.ceph("osd", "pool", "create", "names", 8)
        self.ceph("osd", "pool", "create", "bodies", 32)
        self.ceph("fs", "new", "bench", "names", "bodies")
        self.background(1, "ceph-mds", "-c", self.conf, "-i", "a", "-f", "--public-addr", monitor)
        self.wait("a metadata server", lambda: "up:active" in self.ceph("mds", "stat", check=False))
        for n in self.numbers():
            self.mount(n).mkdir()
            self.background(n, "ceph-fuse", "-c", self.conf, "-f", self.mount(n))
            self.wait(f"mount {n}", lambda n=n: is_mounted(self.mount(n)))

    def ceph(self, *words, check=True):
        """Tell the monitor."""
        return self.on(1, "ceph", "-c", self.conf, "--connect-timeout", 5, *words, check=check)
