# SPDX-License-Identifier: GPL-2.0
"""The root filesystem: Debian 13 with two stock kernels, their headers, and the tools of the lab.

The host needs mmdebstrap and nothing else. Compilers, QEMU, virtme-ng, fio and the rest come from
Debian 13 inside the root filesystem, so a Debian 12 host gives the same results. enter_argv() runs
a command in it, in namespaces of its own: the root is mounted read-only, the checkout and the cache
are mounted at the paths they have outside, and everything dies with the command. Guests then take
that very root as theirs: UML through hostfs, QEMU through 9p, or as an image (sealed.py).

Without root, a user namespace maps the caller to root inside; that takes newuidmap (package uidmap)
and a range in /etc/subuid, which Debian's adduser gives every user.
"""
import os
import re
import shlex
import shutil
import subprocess

from . import cache
from .say import LabError, run_logged, say

SUITE = "trixie"
SERIES = ("6.12", "7.2")        # stock kernels that the base root holds
HOST_PACKAGES = ["mmdebstrap"]

PACKAGES = {
    "kernel and module builds": "build-essential bc bison flex libelf-dev libssl-dev cpio kmod "
                                "dwarves rsync python3 zstd xz-utils perl",
    "guests": "qemu-system-x86 virtme-ng busybox-static erofs-utils",
    "tests and benchmarks": "fio nvme-cli e2fsprogs util-linux iproute2 procps libaio-dev "
                            "liburing-dev redis-tools crun",
    "checks": "sparse shellcheck libasan8 libubsan1 libtsan2",
    "octokvd": "libxxhash-dev liblz4-dev libsodium-dev libhiredis-dev python3-redis clang "
               "libclang-rt-19-dev",
    "peers and applications": "valkey-server rocksdb-tools postgresql etcd-server nutcracker "
                              "haproxy",
    "traces": "bpftrace lttng-tools babeltrace2",
    "packages": "dkms dh-dkms debhelper dpkg-dev udev",
    "documentation and pictures": "python3-sphinx python3-matplotlib",
}

# Runs in the new root. The series in backports replace each other: take the newest of each that the
# lab is built for. The digest of this script names the root in the cache: a changed byte makes
# everybody build again. So a line that is too wide goes on in a second literal.
INSTALL_KERNELS = (r"""
set -e
sed -n 's/^deb \(.*\) trixie main.*/deb \1 trixie-backports main/p' /etc/apt/sources.list | """
                   r"""head -n 1 > /etc/apt/sources.list.d/backports.list
apt-get -q update
newest() { apt-cache pkgnames "linux-image-$1." | """
                   r"""grep -xE "linux-image-$1\.[0-9.]+\+deb13(\.[0-9]+)?-amd64" | """
                   r"""sort -V | tail -n 1; }
for series in 6.12 7.2; do
    image=$(newest $series)
    [ -n "$image" ] || { echo "the archive has no linux-image of series $series"; exit 1; }
    [ $series = 6.12 ] && from=trixie || from=trixie-backports
    INITRD=No apt-get -q install -y --no-install-recommends -t $from "$image" """
                   r""""linux-headers-${image#linux-image-}"
done
apt-get -q install -y --no-install-recommends -t trixie-backports linux-source-7.2
# Sources only: installed, the package would have dkms build all of them at once, """
                   r"""and one probe does not compile.
cd /tmp
apt-get -q download lttng-modules-dkms
dpkg -x lttng-modules-dkms_*.deb /
rm lttng-modules-dkms_*.deb
rm -f /boot/initrd.img-*
apt-get clean
mkdir -p /lab
""")


def packages():
    """All packages of the root filesystem, in one fixed order."""
    return [name for group in PACKAGES.values() for name in group.split()]


def require_host_packages():
    """Check that the host has the lab's tools; install missing ones with sudo, after saying so."""
    missing = [name for name in HOST_PACKAGES if not shutil.which(name)]
    if os.geteuid() != 0 and not shutil.which("newuidmap"):
        missing.append("uidmap")
    if not missing:
        return
    command = ["apt-get", "install", "-y", *missing]
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            raise LabError(f"the host lacks {' '.join(missing)}; as root, run: "
                           f"{shlex.join(command)}")
        command.insert(0, "sudo")
    if not shutil.which("apt-get"):
        raise LabError(f"the host lacks {' '.join(missing)} and has no apt-get; install them by "
                       "its own package manager")
    log = os.path.join(cache.cache_dir(), "log", "host-packages.log")
    if os.geteuid() == 0:
        # Package lists may be older than the archive. If the update fails, the install fails too.
        run_logged("host: apt-get update", ["sh", "-c", "apt-get -q update || true"], log)
        run_logged(f"host: installing {' '.join(missing)}", command, log)
        return
    say(f"the host lacks {' '.join(missing)}; asking once for: {shlex.join(command)}")
    if subprocess.run(command, check=False).returncode != 0:
        raise LabError(f"the host lacks {' '.join(missing)}; run: {shlex.join(command)}")


def host_sources():
    """sources.list lines for Debian 13, with the mirrors and keyrings of the host's own apt.

    Empty if the host is no Debian: then mmdebstrap's defaults hold.
    """
    if not shutil.which("apt-get"):
        return []
    listing = subprocess.run(["apt-get", "indextargets", "--format",
                              "$(REPO_URI)|$(LABEL)|$(SIGNED_BY)", "Created-By: Packages"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             check=False).stdout
    suites = {"Debian": [SUITE, f"{SUITE}-updates"], "Debian-Security": [f"{SUITE}-security"]}
    lines = []
    for label, names in suites.items():
        found = next((row.split("|") for row in listing.splitlines() if row.split("|")[1] == label),
                     None)
        if found:
            option = f"[signed-by={found[2]}] " if found[2].startswith("/") else ""
            lines += [f"deb {option}{found[0]} {name} main" for name in names]
    return lines if any(f" {SUITE} main" in line for line in lines) else []


def _host_proxy_options():
    """The host's apt proxies, for mmdebstrap, which has an apt configuration of its own."""
    if not shutil.which("apt-config"):
        return []
    dump = subprocess.run(["apt-config",
                           "dump"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return [f"--aptopt={line}" for line in dump.splitlines()
            if line.startswith("Acquire::http") and "Proxy" in line]


def unshare_argv():
    """Namespaces of our own, as root in them; as a plain user, through a user namespace."""
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        argv += ["--user", "--map-root-user", "--map-auto"]
    return argv


def _build_root(path):
    sources = host_sources()
    log = os.path.join(cache.cache_dir(), "log", "root.log")
    tar = path + ".tar"
    argv = ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages())}",
            '--aptopt=Apt::Install-Recommends "false"', *_host_proxy_options(),
            "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            f'--customize-hook=chroot "$1" sh -c {shlex.quote(INSTALL_KERNELS)}', SUITE, tar, "-"]
    source_file = path + ".sources"
    with open(source_file, "w") as handle:
        handle.write("\n".join(sources) + "\n")
    if not sources:
        argv.pop()
    try:
        run_logged(f"root filesystem: Debian 13 with {len(packages())} packages and their "
                   "dependencies (about 3 min)",
                   ["sh", "-c", 'exec "$@" < "$0"', source_file, *argv], log)
        run_logged("root filesystem: unpacking",
                   unshare_argv() + ["tar", "-C", path, "--exclude=./dev/*", "-xf", tar], log)
    finally:
        for leftover in (tar, source_file):
            if os.path.exists(leftover):
                os.unlink(leftover)


def base_root():
    """The root filesystem; made when it is missing."""
    key = cache.key_of(SUITE, *packages(), INSTALL_KERNELS)
    final = os.path.join(cache.cache_dir(), f"root-{key}")
    if not os.path.isdir(final):
        require_host_packages()
    return cache.artifact("root", key, _build_root, needed_bytes=8 << 30)


# Runs in the new namespaces, still with the host's root: $0 is the root filesystem, $1 the folders
# that keep their path and stay writable (one a line, the cache first), $2 the folder to start in;
# the rest is the command. A lab that the command starts has the home /root, and finds the cache
# there.
_MOUNT = r"""
set -e
root=$0 keep=$1 start=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o exec,mode=1777 lab "$root/tmp"
mount -t tmpfs lab "$root/lab"
mount -t tmpfs lab "$root/root"
masked='/root /tmp '
IFS='
'
for folder in $keep; do
    top=/$(printf '%s' "${folder#/}" | cut -d/ -f1)
    case "$folder" in /var/tmp/*) top=/var/tmp ;; esac
    case "$masked" in *"$top "*) ;; *)
        case "$top" in
        /usr|/etc|/proc|/sys|/dev|/bin|/sbin|/lib*|/boot|/run|/var|/lab)
            echo "lab: the guest has its own $top;" \
                "move $folder below /home or set XDG_CACHE_HOME" >&2
            exit 1 ;;
        esac
        mkdir -p "$root$top"
        mount -t tmpfs lab "$root$top"
        masked="$masked$top " ;;
    esac
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
done
unset IFS
export HOME=/root
if [ ! -e "$root$HOME/.cache/mqfair" ]; then
    mkdir -p "$root$HOME/.cache"
    ln -s "$(printf '%s' "$keep" | head -n 1)" "$root$HOME/.cache/mqfair"
fi
mount -o remount,bind,ro "$root"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8 TMPDIR=/tmp
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$start" "$@"
"""


def enter_argv(root, command, keep, start, network=False):
    """The argv that runs @command inside @root, with the folders @keep writable at their paths."""
    unique = []
    for folder in [cache.cache_dir(), *keep]:
        folder = os.path.realpath(folder)
        if not any(folder == have or folder.startswith(have + "/") for have in unique):
            unique.append(folder)
    argv = unshare_argv() + ([] if network else ["--net"])
    return argv + ["sh", "-c", _MOUNT, root, "\n".join(unique), os.path.realpath(start), *command]

# Runs a command as a package manager would: $0 is a root that it may change, the rest the command.
_INSIDE = r"""
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/tmp"
mount --bind /etc/resolv.conf "$0/etc/resolv.conf" 2> /dev/null || true
root=$0
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C.UTF-8 TMPDIR=/tmp
exec chroot "$root" "$@"
"""


def inside_argv(root, command, network=False):
    """The argv that runs @command inside @root, which it may change."""
    argv = unshare_argv() + ([] if network else ["--net"])
    return argv + ["sh", "-c", _INSIDE, root, *command]


# Adds the packages $1.
ADD_PACKAGES = """
set -e
apt-get -q update
apt-get -q install -y --no-install-recommends $1
apt-get clean
"""


def derived_root(base, name, script, *args):
    """The root @base with what the shell @script, called with @args, has added.

    It shares its files with @base by hard links: dpkg replaces files and never rewrites them.
    """
    def make(path):
        log = os.path.join(cache.cache_dir(), "log", f"root-{name}.log")
        run_logged(f"root {name}: copying", unshare_argv() + ["cp", "-al", base + "/.", path], log)
        # A link to a lock would be the same lock.
        run_logged(f"root {name}: locks of its own",
                   unshare_argv() + ["sh", "-c", 'rm -f "$0"/var/lib/dpkg/lock*', path], log)
        run_logged(f"root {name}: installing from the archive",
                   inside_argv(path, ["sh", "-c", script, "add", *args], network=True), log)
    return cache.artifact(f"root-{name}", cache.key_of(base, *args, script), make)


def installed_series(root, flavour=""):
    """{series: release} of the stock kernels in @root, of a flavour (cloud, rt) or of none."""
    found = {}
    folder = os.path.join(root, "usr/lib/modules")
    for release in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        if release.split("-")[1:-1] == flavour.split():
            found[".".join(release.split(".")[:2])] = release
    return found


def package_version(root, package):
    """The version of a package installed in @root."""
    with open(os.path.join(root, "var/lib/dpkg/status"), encoding="utf-8") as handle:
        found = re.search(rf"^Package: {re.escape(package)}\n(?:.+\n)*?Version: (.+)$",
                          handle.read(), re.MULTILINE)
    return found.group(1)
