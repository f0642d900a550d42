package lab

import (
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

func shapes() map[string]Topology {
	pods := Homelab()
	pods.StaticPods = true
	single := Homelab()
	single.IPv4Only = true
	return map[string]Topology{"home": Home(3), "two racks": TwoRacks(), "homelab": Homelab(), "two routers": TwoRouters(), "homelab with a CNI": pods, "homelab, IPv4 alone": single}
}

func TestEveryShapeIsValidAndItsInventoryIsToo(t *testing.T) {
	for name, topology := range shapes() {
		t.Run(name, func(t *testing.T) {
			if err := topology.validate(); err != nil {
				t.Fatal(err)
			}
			text := Inventory(topology)
			inv, problems := document.Load(document.Document{Source: "lab.yaml", Data: []byte(text)})
			if err := problems.Err(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, m := range topology.Machines() {
				machine, ok := inv.Machine(m.Name)
				if !ok {
					t.Fatalf("the inventory has no machine %s", m.Name)
				}
				rack, _ := topology.RackOf(m.Name)
				families := 2
				if topology.IPv4Only {
					families = 1
				}
				speakers := slices.DeleteFunc(slices.Clone(rack.Routers), func(name string) bool {
					r, _ := topology.Router(name)
					return !r.speaks()
				})
				if have, want := len(inv.Sessions(machine)), families*len(speakers); have != want {
					t.Errorf("machine %s has %d sessions, want %d: one per router that speaks BGP, and family", m.Name, have, want)
				}
			}
		})
	}
}

func TestNoAddressIsGivenTwice(t *testing.T) {
	for name, topology := range shapes() {
		seen := map[string]string{}
		give := func(who string, d Dual) {
			for _, a := range []string{d.V4.String(), d.V6.String()} {
				if other := seen[a]; other != "" {
					t.Errorf("%s: %s and %s both have %s", name, other, who, a)
				}
				seen[a] = who
			}
		}
		for _, m := range topology.Machines() {
			give(m.Name, topology.MachineAddress(m.Name))
		}
		for _, rack := range topology.Racks {
			for _, h := range rack.Hosts {
				give(h, topology.HostAddress(h))
			}
			for _, r := range rack.Routers {
				give(r, topology.RouterAddress(r, rack.Name))
			}
		}
		for _, k := range topology.links() {
			give(k.a, k.addrA)
			give(k.b, k.addrB)
		}
	}
}

func TestATopologyThatCannotBeBuiltIsRefusedWithEveryReason(t *testing.T) {
	bad := Topology{
		Routers: []Router{{Name: "client", OS: FRR}, {Name: "tor", OS: "ios"}},
		Racks:   []Rack{{Name: "r1", Routers: []string{"nobody"}, Machines: machines("w1", "w1", "a-name-too-long")}},
	}
	err := bad.validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"client"`, `os "ios"`, `no router "nobody"`, `"w1": the name is given twice`, `"a-name-too-long"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s:\n%v", want, err)
		}
	}
}
