package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

const krewHead = `# For krew: kubectl krew install --manifest=plinth.yaml
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: plinth
spec:
  version: %s
  homepage: https://plinth.dev/plinth
  shortDescription: Check an inventory, and see where a VIP's way breaks
  description: |
    Checks inventories of machines, racks, routers and addresses for Plinth, writes the router's
    side of BGP sessions, and shows how VIPs, Nodes, sessions and routes of a cluster are, with
    causes.
  platforms:
`

const krewPlatform = `    - selector: {matchLabels: {os: %s, arch: %s}}
      uri: %s/%s/%s
      sha256: %s
      bin: %s
`

// krew writes the manifest by which krew installs `kubectl plinth`.
func (o options) krew() error {
	const program = "plinth"
	var all strings.Builder
	fmt.Fprintf(&all, krewHead, o.version)
	for _, p := range platforms[program] {
		archive := o.archive(program, p)
		sum, err := checksum(filepath.Join(o.out, archive))
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, krewPlatform, p.os, p.arch, strings.TrimSuffix(o.download, "/"), o.version, archive, sum, p.file(program))
	}
	return o.write("plinth.yaml", []byte(all.String()))
}
