package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// drawn is a cluster with some troubles at once.
func drawn(t *testing.T, r *rapid.T) *Objects {
	o := healthy(t)
	drawn := rapid.SliceOfNDistinct(rapid.IntRange(0, len(troubles)-1), 0, 6, rapid.ID).Draw(r, "troubles")
	for i, which := range drawn {
		if len(drawn) == 1 || !takesAway[troubles[which].name] {
			troubles[which].make(t, o)
		}
		if rapid.Bool().Draw(r, fmt.Sprint("unread ", i)) {
			o.Unread = append(o.Unread, fmt.Sprintf("kind %d: it is forbidden", which))
		}
	}
	return o
}

// TestABundleHasWhatIsFound is the law that doctor(bundle(x)) = doctor(x).
func TestABundleHasWhatIsFound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := Read(*drawn(t, r))
		text, err := c.Bundle()
		if err != nil {
			r.Fatal(err)
		}
		again, err := Open(text)
		if err != nil {
			r.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(Examine(c), Examine(again)); diff != "" {
			r.Errorf("in the cluster and in the bundle (-cluster +bundle): %s\n%s", diff, text)
		}
		if diff := cmp.Diff(c.Unread, again.Unread); diff != "" {
			r.Error(diff)
		}
		if other, err := again.Bundle(); err != nil || !bytes.Equal(text, other) {
			r.Errorf("the bundle of a bundle is another (%v): %s", err, cmp.Diff(string(text), string(other)))
		}
	})
}

func TestFindingsAreTheSameInAnyOrderOfObjects(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := drawn(t, r)
		want := Examine(Read(*o))
		o.Nodes = rapid.Permutation(o.Nodes).Draw(r, "nodes")
		o.DaemonSets = rapid.Permutation(o.DaemonSets).Draw(r, "daemonsets")
		o.Deployments = rapid.Permutation(o.Deployments).Draw(r, "deployments")
		o.Services = rapid.Permutation(o.Services).Draw(r, "services")
		o.Leases = rapid.Permutation(o.Leases).Draw(r, "leases")
		if diff := cmp.Diff(want, Examine(Read(*o))); diff != "" {
			r.Error(diff)
		}
	})
}

// secret is planted wherever an object can have one.
const secret = "hunter2-S3CR3T"

// plant writes the secret into every text of an object that Kubernetes gives no form: annotations, labels, environments, arguments,
// values of ConfigMaps and messages, and into all of another program's object.
func plant(o *Objects) {
	marks := func(all *map[string]string, keys ...string) {
		next := map[string]string{"example.com/token": secret, "kubectl.kubernetes.io/last-applied-configuration": `{"password":"` + secret + `"}`}
		for k, v := range *all {
			next[k] = v
		}
		for _, k := range keys {
			next[k] = secret
		}
		*all = next
	}
	pods := func(p *v1.PodSpec) {
		for i := range p.Containers {
			c := &p.Containers[i]
			c.Image = "registry.example.com/" + secret + "/plinth/" + c.Image + "-" + secret
			c.Env = append(c.Env, v1.EnvVar{Name: "bgp_peerpass", Value: secret}, v1.EnvVar{Name: "bgp_peers", Value: "192.0.2.1:65000:" + secret + ":false"}, v1.EnvVar{Name: "bgp_enable", Value: "true"})
			c.Args = append(c.Args, "--token="+secret, "--password", secret, "--peer-router-passwords="+secret, "--proxy-health=http://admin:"+secret+"@127.0.0.1:10256/healthz?token="+secret,
				"--cloud-provider="+secret, "--leader-elect-resource-name", secret, "--peer-router-ips="+secret, "--load-balancer-class-only="+secret, "--secure-port="+secret)
		}
	}
	for i := range o.Nodes {
		marks(&o.Nodes[i].Annotations, providedNodeIP)
		marks(&o.Nodes[i].Labels)
		o.Nodes[i].Spec.Taints = append(o.Nodes[i].Spec.Taints, v1.Taint{Key: "example.com/x", Value: secret})
		for j := range o.Nodes[i].Status.Conditions {
			o.Nodes[i].Status.Conditions[j].Message += "; password " + secret + "; kernel settings: none"
		}
	}
	for i := range o.DaemonSets {
		marks(&o.DaemonSets[i].Annotations)
		pods(&o.DaemonSets[i].Spec.Template.Spec)
	}
	for i := range o.Deployments {
		marks(&o.Deployments[i].Annotations)
		marks(&o.Deployments[i].Labels)
		pods(&o.Deployments[i].Spec.Template.Spec)
	}
	for i := range o.Pods {
		marks(&o.Pods[i].Annotations)
		pods(&o.Pods[i].Spec)
	}
	for i := range o.Services {
		marks(&o.Services[i].Annotations)
		marks(&o.Services[i].Labels)
	}
	for i := range o.ConfigMaps {
		cm := &o.ConfigMaps[i]
		marks(&cm.Annotations, acceptedProgram)
		marks(&cm.Data, "password", "cidr-global", "cluster-pool-ipv4-cidr", "ipv4-native-routing-cidr")
		for key := range cm.Data {
			cm.Data[key] += "\npassword: " + secret + "\nmode: " + secret + "\n"
		}
	}
	for i := range o.Leases {
		marks(&o.Leases[i].Annotations)
	}
	for _, kind := range CustomKinds() {
		spec := map[string]any{"password": secret, "peerAddress": secret, "peerIP": secret, "cidr": secret, "addresses": []any{secret}, "allowedUses": []any{secret},
			"blocks":       []any{map[string]any{"cidr": secret, "start": secret, "stop": secret}},
			"bgp":          map[string]any{"routers": []any{map[string]any{"neighbors": []any{map[string]any{"address": secret, "password": secret}}}}},
			"bgpInstances": []any{map[string]any{"peers": []any{map[string]any{"peerAddress": secret}}}}}
		o.Custom = append(o.Custom, custom(kind.Group+"/v1", kind.Kind, "x", spec))
	}
}

// TestABundleHasNoSecret is the law that nothing written where a secret may stand comes into a bundle.
func TestABundleHasNoSecret(t *testing.T) {
	inv := with(t, `  labels: {example.com/token: `+secret+`}
  storage: [{name: s, rack: shelf, csi: {driver: csi.example.com, attributes: {token: `+secret+`}}}]
`)
	inv.Racks[0].Machines[0].Reason, inv.Racks[0].Machines[0].Labels = secret, map[string]string{"example.com/token": secret}
	rapid.Check(t, func(r *rapid.T) {
		o := drawn(t, r)
		plant(o)
		if o.Inventory != nil {
			o.Inventory = inv
		}
		c := Read(*o)
		text, err := c.Bundle()
		if err != nil {
			r.Fatal(err)
		}
		for what, all := range map[string][]byte{"bundle": text, "findings": []byte(printed(Examine(c)))} {
			if i := bytes.Index(all, []byte(secret)); i >= 0 {
				r.Errorf("the %s has the secret: ...%s", what, all[max(0, i-200):min(len(all), i+100)])
			}
		}
	})
	if inv.Racks[0].Machines[0].Reason != secret {
		t.Error("the inventory was changed")
	}
}

func TestWhatIsNoBundleIsRefused(t *testing.T) {
	for _, text := range []string{"", "x", "[]", "apiVersion: v1\nkind: ConfigMap\n", "apiVersion: plinth.dev/v1alpha1\nkind: DoctorBundle\ncluster: {passwords: [x]}\n"} {
		if c, err := Open([]byte(text)); !errors.Is(err, ErrNoBundle) || !reflect.DeepEqual(c, Cluster{}) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Open([]byte("apiVersion: plinth.dev/v1alpha1\nkind: DoctorBundle\ninventory: x\n")); err == nil {
		t.Error("an inventory that is none is taken")
	}
}
