package volume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

const storages = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]
  storage:
    - {name: nas, rack: r01, nfs: {server: 10.10.1.50}}
    - {name: san, rack: r02, iscsi: {portal: "10.10.2.50:3260"}}
    - {name: ceph, rack: r02, csi: {driver: rbd.csi.ceph.com, attributes: {pool: r02}}}
  racks:
    - {name: r01, zone: a, machines: [{name: w1, addresses: [10.10.1.11]}]}
    - {name: r02, zone: b, machines: [{name: w2, addresses: [10.10.2.11]}]}
`

func localOn(hosts ...string) v1.PersistentVolumeSpec {
	return v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt"}},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: hosts}},
		}}}},
	}
}

func TestVolumesAreWhereTheirStorageIs(t *testing.T) {
	rack := func(name, zone string) map[string]string {
		return map[string]string{"topology.kubernetes.io/region": "dc1", "topology.kubernetes.io/zone": zone, "plinth.dev/rack": name}
	}
	of := func(s v1.PersistentVolumeSource) v1.PersistentVolumeSpec {
		return v1.PersistentVolumeSpec{PersistentVolumeSource: s}
	}
	csi := func(driver, pool string) v1.PersistentVolumeSpec {
		return of(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeAttributes: map[string]string{"pool": pool, "more": "x"}}})
	}
	cases := map[string]struct {
		volume v1.PersistentVolumeSpec
		want   map[string]string
	}{
		"NFS":                     {of(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "10.10.1.50"}}), rack("r01", "a")},
		"NFS of somebody else":    {of(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "192.0.2.1"}}), nil},
		"iSCSI":                   {of(v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{TargetPortal: "10.10.2.50:3260"}}), rack("r02", "b")},
		"iSCSI, second portal":    {of(v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{TargetPortal: "10.10.9.50:3260", Portals: []string{"10.10.2.50:3260"}}}), rack("r02", "b")},
		"CSI with its attributes": {csi("rbd.csi.ceph.com", "r02"), rack("r02", "b")},
		"CSI of another pool":     {csi("rbd.csi.ceph.com", "r09"), nil},
		"CSI of another driver":   {csi("other", "r02"), nil},
		"local":                   {localOn("w2"), rack("r02", "b")},
		"local on two hosts":      {localOn("w1", "w2"), nil},
		"local on a stranger":     {localOn("stranger"), nil},
		"local without a host":    {of(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}), nil},
		"a host path":             {of(v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}), nil},
	}
	inv, problems := document.Load(document.Document{Source: "test.yaml", Data: []byte(storages)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	places := Places{Nodes: nodesNamed(t, "w1", "w2", "stranger"), MachineOf: func(node *v1.Node) (*inventory.Inventory, inventory.Machine, error) {
		m, err := inv.MachineOf(inventory.NodeIdentity{Name: node.Name})
		return inv, m, err
	}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := places.Labels(inv, &v1.PersistentVolume{Spec: tc.volume})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// nodesNamed lists Nodes that have their names as host names.
func nodesNamed(t *testing.T, names ...string) corelisters.NodeLister {
	t.Helper()
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range names {
		if err := index.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}); err != nil {
			t.Fatal(err)
		}
	}
	return corelisters.NewNodeLister(index)
}
