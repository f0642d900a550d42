#!/bin/bash
# Runs targets of the Makefile on a fresh machine: a minimal Debian (or Ubuntu, as this
# one is) with make, Go and a clean clone of HEAD, and nothing else. A package that the
# project uses and does not install is missing there.
#
#     test/fresh.sh [--cold] TARGET...
#
# The machine is a folder that becomes the root of processes with mounts, process IDs and
# a network of their own, which the kernel takes away with the last of them. It reaches
# what this machine reaches, through a network stack in user space. Go's caches and the
# control plane's are this machine's, to save an hour; --cold goes without.
set -euo pipefail

base=/var/tmp/plinth-fresh
root=$base/root
self=$(readlink -f "$0")
source=$(dirname "$(dirname "$self")")
goroot=$(go env GOROOT)

say() { printf '\n\033[1m== fresh: %s\033[0m\n' "$*"; }
die() { printf 'fresh: %s\n' "$*" >&2 && exit 1; }

main() {
	[ "$(id -u)" = 0 ] || die "a root file system of its own needs root"
	"$source/test/install-deps.sh" git mmdebstrap slirp4netns
	exec 9>"$base.lock" # beside the folder, which goes and comes anew
	flock --nonblock 9 || die "it already runs: $base.lock is locked"
	remove # what a run has left that was killed with SIGKILL
	mkdir -p "$base"
	trap remove EXIT
	trap 'stop; exit 130' INT TERM HUP
	# Whatever ends this script ends all: its death that of unshare, which is that of the
	# first process, which is that of all others.
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL --mount-proc \
		"$BASH" "$self" --inside "$@" </dev/null 9<&- &
	child=$!
	wait "$child" || die "failed"
	say "OK"
}

# stop ends the first process; unshare returns once all others have ended too.
stop() {
	trap '' INT TERM HUP
	local first=
	read -r first <"/proc/$child/task/$child/children" || true
	[ -z "$first" ] || kill -KILL $first || true
	wait "$child" || true
}

remove() { rm -rf --one-file-system "$base"; }

# inside is the first process of the new namespaces, still in this machine's root.
inside() {
	local cold= target
	if [ "${1:-}" = --cold ]; then cold=yes && shift; fi
	[ $# -gt 0 ] || die "no target given"
	bootstrap
	say "a clean clone of HEAD, $(git -C "$source" rev-parse --short HEAD)"
	git clone -q --no-hardlinks "$source" "$root/root/plinth"
	mounts
	[ -n "$cold" ] || caches
	network
	for target in "$@"; do
		say "make $target"
		SECONDS=0
		enter "$target" || die "make $target failed after $SECONDS s"
		say "make $target passed in $SECONDS s"
	done
}

# bootstrap makes a Debian of the packages that each one has, from where this one gets its
# own: only from the distribution, not from other sources that were added.
bootstrap() {
	local sources=$base/fresh.list proxy
	list() { apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sed -nE 's/^(Debian|Ubuntu) //p'; }
	[ -n "$(list)" ] || apt-get update -q
	list >"$sources"
	[ -s "$sources" ] || die "apt knows no source of Debian or Ubuntu: apt-get indextargets lists none"
	mapfile -t proxy < <(apt-config dump | grep -E '^Acquire::https?::Proxy ' || true)
	say "a minimal root, by mmdebstrap"
	mmdebstrap --quiet --variant=minbase --include=make "${proxy[@]/#/--aptopt=}" "" "$root" "$sources"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
}

mounts() {
	mount --bind "$root" "$root" # pivot_root wants a mount
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/dev/shm"
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	bind "$goroot" /usr/local/go
	mount -o remount,bind,ro "$root/usr/local/go"
}

bind() { mkdir -p "$1" "$root$2" && mount --bind "$1" "$root$2"; }

# caches binds the caches of whoever called, or some of its own where that is not root,
# who would find files of root's among theirs.
caches() {
	local build mod plinth=${XDG_CACHE_HOME:-$HOME/.cache}/plinth
	build=$(go env GOCACHE) mod=$(go env GOMODCACHE)
	if [ "${SUDO_UID:-0}" != 0 ]; then
		plinth=/var/cache/plinth-fresh/plinth build=/var/cache/plinth-fresh/build mod=/var/cache/plinth-fresh/mod
	fi
	bind "$build" /root/.cache/go-build
	bind "$mod" /root/go/pkg/mod
	bind "$plinth" /root/.cache/plinth
}

# network makes a network namespace that has nothing of this machine's: no interface, no
# rule and no port in use. slirp4netns connects it to where this machine is connected.
network() {
	local ready=$base/ready
	touch "$base/net"
	unshare --net="$base/net" true
	mkfifo "$ready"
	slirp4netns --configure --disable-host-loopback --mtu=65520 --ready-fd=3 --netns-type=path "$base/net" tap0 3<>"$ready" >"$base/slirp.log" 2>&1 &
	read -r -n 1 -t 30 <>"$ready" || die "no network within 30 s: $(cat "$base/slirp.log")"
	echo "nameserver 10.0.2.3" >"$root/etc/resolv.conf" # slirp4netns, which asks this machine's
}

# enter runs a target in the new root and network.
enter() {
	nsenter --net="$base/net" unshare --mount "$BASH" -euc '
		cd "$1"
		mount -t sysfs sysfs sys # of this network namespace
		pivot_root . mnt
		umount --lazy mnt
		shift
		exec chroot . "$@"
	' enter "$root" /usr/bin/env -i --default-signal --chdir=/root/plinth \
		HOME=/root USER=root PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		GOPROXY="$(go env GOPROXY)" GOSUMDB="$(go env GOSUMDB)" GOPRIVATE="$(go env GOPRIVATE)" \
		http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" no_proxy="${no_proxy:-}" \
		make "$1"
}

if [ "${1:-}" = --inside ]; then
	shift
	inside "$@"
else
	main "$@"
fi
