package lab

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"text/template"
	"time"

	"go4.org/netipx"
)

// PublicPool4 and PublicPool6 are the addresses of the pool in every Inventory.
var (
	PublicPool4 = netip.MustParsePrefix("203.0.113.0/25")
	PublicPool6 = netip.MustParsePrefix("2001:db8:113::/112")
)

// LANPool4 and LANPool6 are the addresses of the pool in the Inventory of a topology without a
// router that speaks BGP: they are of the first rack's subnet.
var (
	LANPool4 = netipx.MustParseIPRange("10.10.1.200-10.10.1.249")
	LANPool6 = netipx.MustParseIPRange("2001:db8:10:1::200-2001:db8:10:1::249")
)

// Inventory is what Plinth is told about a topology: all of it, with one pool.
func Inventory(t Topology) string {
	var b strings.Builder
	err := inventoryTemplate.Execute(&b, map[string]any{
		"T": t, "Routers": t.speakers(), "ASN": MachineASN, "Pods4": PodCIDR4, "Pods6": PodCIDR6,
		"Pool4": PublicPool4, "Pool6": PublicPool6, "LAN4": LANPool4, "LAN6": LANPool6, "Hold": cmp.Or(t.HoldTime, 3*time.Second),
	})
	if err != nil {
		panic(err) // the template and its data are both ours
	}
	return b.String()
}

// Pool is one more document of the same inventory, with another pool.
func Pool(t Topology, name string, addresses ...string) string {
	return fmt.Sprintf(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: %s}
spec:
  pools:
    - name: %s
      addresses: ["%s"]
`, t.Name, name, strings.Join(addresses, `", "`))
}

// list prints what a topology has of both families, as YAML.
func list(t Topology, v4, v6 fmt.Stringer) string {
	if t.IPv4Only {
		return fmt.Sprintf("[%s]", v4)
	}
	return fmt.Sprintf("[%s, %q]", v4, v6)
}

var inventoryTemplate = template.Must(template.New("inventory").Funcs(template.FuncMap{
	"join":    strings.Join,
	"unit":    func(i int) int { return i + 1 },
	"subnets": func(t Topology, i int) string { v4, v6 := rackSubnet(i); return list(t, v4, v6) },
	"list":    list,
	"addr":    func(t Topology, machine string) Dual { return t.MachineAddress(machine) },
	"router": func(t Topology, name string) Dual {
		for _, rack := range t.Racks {
			if a := t.RouterAddress(name, rack.Name); a.V4.IsValid() {
				return a
			}
		}
		return Dual{}
	},
}).Parse(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: {{.T.Name}}}
spec:
{{- if .Routers}}
  bgp:
    asn: {{.ASN}}
    holdTime: {{.Hold}}
    gracefulRestart: {restartTime: 20s}
{{- end}}
{{- if not .T.StaticPods}}
  podNetwork:
    mode: {{if .Routers}}fabric{{else}}direct{{end}}
    cidrs: {{list .T .Pods4 .Pods6}}
    rackPrefix: {ipv4: 20{{if not .T.IPv4Only}}, ipv6: 56{{end}}}
    nodePrefix: {ipv4: 24{{if not .T.IPv4Only}}, ipv6: 64{{end}}}
{{- end}}
{{- if .Routers}}
  routers:
{{- range .Routers}}{{$a := router $.T .Name}}
    - {name: {{.Name}}, addresses: {{list $.T $a.V4 $a.V6}}, asn: {{.ASN}}, os: {{.OS}}}
{{- end}}
  pools:
    - name: public
      addresses: {{list .T .Pool4 .Pool6}}
{{- else}}
  pools:
    - name: lan
      addresses: {{list .T .LAN4 .LAN6}}
{{- end}}
  racks:
{{- range $i, $rack := .T.Racks}}
    - name: {{.Name}}
{{- with .Zone}}
      zone: {{.}}
{{- end}}
      row: a
      subnets: {{subnets $.T $i}}
{{- if $.Routers}}
      peers: [{{join .Routers ", "}}]
{{- end}}
      machines:
{{- range $m, $machine := .Machines}}{{$a := addr $.T .Name}}
        - {name: {{.Name}}, {{with .ID}}id: {{.}}, {{end}}addresses: {{list $.T $a.V4 $a.V6}}, unit: {{unit $m}}, type: lab-small, match: {systemUUID: {{.SystemUUID}}}}
{{- end}}
{{- end}}
`))
