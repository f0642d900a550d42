#!/bin/sh
# Installs the Debian packages that the lab and the tests use, or those that are named,
# those that are missing alone, and keeps their services from starting: the lab runs
# routers in namespaces of its own, none on this machine.
set -eu

packages="${*:-ca-certificates git frr frr-pythontools bird2 openbgpd nftables iptables iproute2 iputils-ping ethtool conntrack tcpdump procps curl}"
missing=""
for p in $packages; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)
	[ "$state" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

echo "installing:$missing"
if [ ! -e /usr/sbin/policy-rc.d ]; then
	# invoke-rc.d asks this program before it starts a service; 101 means no.
	printf '#!/bin/sh\n# of Plinth'"'"'s test/install-deps.sh\nexit 101\n' >/usr/sbin/policy-rc.d
	chmod 755 /usr/sbin/policy-rc.d
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1 ||
	{ apt-get update -q && apt-get install -y -q --no-install-recommends $missing; }
