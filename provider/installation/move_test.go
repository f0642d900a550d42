package installation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory/source"
)

const text = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514, passwordFrom: {secret: bgp, key: gateway}}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
`

const slice = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
`

func configMap(namespace, name, label, value string, data map[string]string) *v1.ConfigMap {
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{source.AnnotationGeneration: "4"}}, Data: data}
	if label != "" {
		cm.Labels = map[string]string{label: value}
	}
	return cm
}

// whole is an installation in kube-system that nobody leads any more.
func whole() []runtime.Object {
	part := configMap(older, source.AcceptedName+".shelf.4", source.LabelAccepted, "home", map[string]string{"inventory.yaml": slice})
	part.Immutable = new(true)
	helms := configMap(older, "inventory-of-helm", source.LabelInventory, "home", map[string]string{"a.yaml": text})
	helms.Labels[managedBy] = "Helm"
	return []runtime.Object{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: older}},
		leaseOf(older, "", 1),
		configMap(older, source.AcceptedName, source.LabelAccepted, "home", map[string]string{"inventory.yaml": text, "racks": "shelf 4\n"}),
		part, helms,
		configMap(older, "inventory", source.LabelInventory, "home", map[string]string{"home.yaml": text}),
		configMap(older, "plinth-released", "", "", map[string]string{"released.json": "[]", "writes": "17"}),
		configMap(older, source.StatusName, "", "", map[string]string{"refused": "x"}),
		configMap(older, "coredns", "", "", map[string]string{"Corefile": "."}),
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: older, Name: "bgp"}, Data: map[string][]byte{"gateway": []byte("secret")}},
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: older, Name: "other"}},
	}
}

func moveOf(client *fake.Clientset, from, to string) Move {
	return Move{Client: client, From: from, To: to, Patience: time.Second, Say: func(string) {}}
}

// contents are the ConfigMaps and Secrets of a namespace, as far as they tell anything.
func contents(t *testing.T, client *fake.Clientset, namespace string) map[string]string {
	t.Helper()
	maps, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, cm := range maps.Items {
		all[cm.Name] = fmt.Sprint(cm.Data, cm.Labels, cm.Annotations, cm.Immutable != nil)
	}
	for _, s := range secrets.Items {
		all["secret "+s.Name] = fmt.Sprint(s.Data)
	}
	return all
}

func TestAnInstallationIsMovedAndMovedBack(t *testing.T) {
	client := cluster(whole()...)
	before := contents(t, client, older)
	if err := moveOf(client, older, newer).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(before)
	for _, others := range []string{"coredns", "secret other", "inventory-of-helm"} {
		delete(want, others)
	}
	if d := cmp.Diff(want, contents(t, client, newer)); d != "" {
		t.Error(d)
	}
	if may := mayAct(t, client); !slices.Equal(may, []string{newer}) {
		t.Errorf("then these may act: %v", may)
	}
	// A generation later.
	accepted, err := client.CoreV1().ConfigMaps(newer).Get(t.Context(), source.AcceptedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	accepted.Annotations[source.AnnotationGeneration] = "5"
	if _, err := client.CoreV1().ConfigMaps(newer).Update(t.Context(), accepted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := moveOf(client, older, newer).Run(t.Context()); err != nil { // once more does nothing
		t.Fatal(err)
	}
	if err := moveOf(client, newer, older).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	before[source.AcceptedName] = strings.Replace(before[source.AcceptedName], source.AnnotationGeneration+":4", source.AnnotationGeneration+":5", 1)
	if d := cmp.Diff(before, contents(t, client, older)); d != "" {
		t.Error(d)
	}
	if may := mayAct(t, client); !slices.Equal(may, []string{older}) {
		t.Errorf("moved back, these may act: %v", may)
	}
}

// mayAct are the namespaces where a controller of this version that is started may lead and act.
func mayAct(t *testing.T, client *fake.Clientset) (namespaces []string) {
	t.Helper()
	all, err := Find(t.Context(), client, source.DefaultLease)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{older, newer} {
		i := slices.IndexFunc(all, func(i Installation) bool { return i.Namespace == own })
		leads := i < 0 || all[i].Holder == ""
		if leads && judge(own, all, map[string]bool{}) == "" {
			namespaces = append(namespaces, own)
		}
	}
	return namespaces
}

// TestAMoveThatDiesIsEndedByAnother lets a process do one write, and die with the next one, until one
// has nothing left to do. Whatever was written last, no two namespaces may act, and once the lease is
// parked the old one never may.
func TestAMoveThatDiesIsEndedByAnother(t *testing.T) {
	undisturbed := cluster(whole()...)
	if err := moveOf(undisturbed, older, newer).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := cluster(whole()...)
	errDied := errors.New("it died")
	left := 0
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains([]string{"get", "list"}, a.GetVerb()) {
			return false, nil, nil
		}
		left--
		return left < 0, nil, errDied
	})
	var states []string
	for {
		left = 1
		err := moveOf(client, older, newer).Run(t.Context())
		states = append(states, strings.Join(mayAct(t, client), " "))
		if err == nil {
			break
		}
		if !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		if len(states) > 50 {
			t.Fatal("it never ends")
		}
	}
	// The lease, the namespace, the Secret, the inventory, released, status, a slice; then what is in
	// force, the mark, and the run that has no more to do than the one before.
	want := []string{"", "", "", "", "", "", "", newer, newer}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("after each write these may act: %s", d)
	}
	for _, namespace := range []string{older, newer} {
		if d := cmp.Diff(contents(t, undisturbed, namespace), contents(t, client, namespace)); d != "" {
			t.Errorf("namespace %s: %s", namespace, d)
		}
	}
}

func TestWhatCannotBeMovedIsLeftAsItIs(t *testing.T) {
	moved := func(to string) runtime.Object {
		cm := configMap(older, source.AcceptedName, source.LabelAccepted, "home", map[string]string{"inventory.yaml": text})
		cm.Annotations[AnnotationMovedTo] = to
		return cm
	}
	for name, c := range map[string]struct {
		have []runtime.Object
		to   string
		want string
	}{
		"nothing":                       {nil, newer, "nothing to move"},
		"to where it is":                {whole(), older, "is in namespace kube-system already"},
		"to another installation":       {append(whole(), acceptedIn(newer, "1")), newer, "in namespace plinth-system as well"},
		"while a controller leads":      {append(slices.Clone(whole()[2:]), leaseOf(older, "host_1", 60)), newer, "host_1 still holds lease"},
		"what was moved elsewhere":      {[]runtime.Object{moved("third")}, newer, "was moved to third"},
		"while it is moved elsewhere":   {append(slices.Clone(whole()[2:]), leaseOf(older, movedPrefix+"third", 60)), newer, "is being moved to third"},
		"what a newer version stored":   {[]runtime.Object{newerFormat()}, newer, "format"},
		"what somebody else has spoilt": {[]runtime.Object{configMap(older, source.AcceptedName, source.LabelAccepted, "home", map[string]string{"inventory.yaml": "{"})}, newer, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			client := cluster(c.have...)
			before := contents(t, client, older)
			client.ClearActions()
			err := moveOf(client, older, c.to).Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
			for _, a := range client.Actions() {
				if a.GetVerb() != "get" && a.GetVerb() != "list" {
					t.Errorf("it did %s %s", a.GetVerb(), a.GetResource().Resource)
				}
			}
			if d := cmp.Diff(before, contents(t, client, older)); d != "" {
				t.Error(d)
			}
		})
	}
}

func newerFormat() runtime.Object {
	cm := configMap(older, source.AcceptedName, source.LabelAccepted, "home", map[string]string{"inventory.yaml": text})
	cm.Annotations["plinth.dev/format"] = "99"
	return cm
}

// TestASecretThatIsThereStays: somebody has made it for the routers as they are now.
func TestASecretThatIsThereStays(t *testing.T) {
	there := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: newer, Name: "bgp"}, Data: map[string][]byte{"gateway": []byte("next")}}
	client := cluster(append(whole(), there)...)
	if err := moveOf(client, older, newer).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Secrets(newer).Get(t.Context(), "bgp", metav1.GetOptions{})
	if err != nil || string(got.Data["gateway"]) != "next" {
		t.Errorf("it is %v, %v", got, err)
	}
}

// TestALeaseThatIsTakenAgainIsNotParked: another replica took it between look and write.
func TestALeaseThatIsTakenAgainIsNotParked(t *testing.T) {
	client := cluster(whole()...)
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), leaseOf(older, "host_2", 60), older); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(v1.Resource("leases"), source.DefaultLease, errors.New("it was written"))
	})
	err := moveOf(client, older, newer).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "still holds lease") {
		t.Errorf("it says %v", err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), newer, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("something was made there: %v", err)
	}
}
