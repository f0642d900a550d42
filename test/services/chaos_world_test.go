//go:build chaos

package services

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/apiserver"
)

// chaos is a cluster whose controller managers reach the API server through faults, and are
// started again when they end, as a kubelet does.
type chaos struct {
	*cluster
	random   *rand.Rand
	faults   *apiserver.Faults
	replicas []*replica
	loner    *replica // leads without asking

	steps     int // until something is disturbed
	disturbed int // how often
	did       map[string]int

	services map[string]bool // by namespace/name; true: it stays when it is deleted, until it is let go
	going    []string        // that were deleted, and stay until they are let go
	gone     []string        // whose name is free by now, or will be
	made     int
	asked    int // addresses of the second pool
	groups   map[int]int32
}

// replica is a controller manager with a folder that outlives its process.
type replica struct {
	start   func() *apiserver.Process
	process *apiserver.Process
	wakes   time.Time // when it is resumed; zero: it is not stopped
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	c := &chaos{
		cluster:  newCluster(t),
		random:   rand.New(rand.NewPCG(seed, 1)),
		did:      map[string]int{},
		steps:    50,
		services: map[string]bool{},
		groups:   map[int]int32{},
	}
	c.faults = c.Faults(seed)
	c.Limited = c.WriteKubeconfigOf(c.faults.URL, "ccm", c.AccountToken(apiserver.ControllerName))
	c.namespace("other")
	c.pools(chaosPools)
	for _, ip := range foreignAddresses {
		obj := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: "example.com"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "things", Name: "thing"}},
		}
		if _, err := c.Client.NetworkingV1().IPAddresses().Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// deploy starts so many controller managers, of which one leads.
func (c *chaos) deploy(n int) {
	c.t.Helper()
	for range n {
		state := filepath.Join(c.t.TempDir(), "state")
		r := &replica{start: func() *apiserver.Process {
			return c.Launch("--configure-cloud-routes=false", "--state-dir="+state, "--leader-elect=true",
				"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=300ms")
		}}
		r.process = r.start()
		c.replicas = append(c.replicas, r)
	}
}

// letTwoLead starts one more, which leads whether or not another one does.
func (c *chaos) letTwoLead() {
	c.t.Helper()
	state := filepath.Join(c.t.TempDir(), "state")
	c.loner = &replica{start: func() *apiserver.Process { return c.Launch("--configure-cloud-routes=false", "--state-dir="+state) }}
	c.loner.process = c.loner.start()
}

// tend starts a controller manager again that has ended, and resumes one that was stopped
// for long enough.
func (c *chaos) tend(r *replica) {
	switch {
	case !r.process.Running():
		r.process, r.wakes = r.start(), time.Time{}
	case !r.wakes.IsZero() && time.Now().After(r.wakes):
		r.process.Signal(syscall.SIGCONT)
		r.wakes = time.Time{}
	}
}

// tendAll tends all that there are, and returns them.
func (c *chaos) tendAll() []*replica {
	all := slices.Clone(c.replicas)
	if c.loner != nil {
		all = append(all, c.loner)
	}
	for _, r := range all {
		c.tend(r)
	}
	return all
}

// disturb does something to a controller manager, or to what it watches, once in a while.
func (c *chaos) disturb() {
	all := c.tendAll()
	if c.steps--; c.steps > 0 {
		return
	}
	c.steps = 20 + c.random.IntN(40)
	r := all[c.random.IntN(len(all))]
	what := disturbances[c.disturbed%len(disturbances)] // so that none is left out
	c.disturbed++
	c.did[what]++
	switch what {
	case "kill":
		r.process.Kill()
	case "terminate":
		r.process.Signal(syscall.SIGTERM)
	case "stop for a while":
		r.process.Signal(syscall.SIGSTOP)
		r.wakes = time.Now().Add(time.Duration(c.random.Int64N(int64(5 * time.Second))))
	case "cut watches":
		c.faults.CutWatches()
	}
}

var disturbances = []string{"cut watches", "kill", "stop for a while", "kill", "cut watches", "terminate"}

// calm ends all faults: two controller managers run, of which one leads.
func (c *chaos) calm() {
	c.faults.Fail(0)
	if c.loner != nil {
		c.loner.process.Kill()
		c.loner = nil
	}
	for _, r := range c.replicas {
		r.process.Signal(syscall.SIGCONT)
		r.wakes = time.Time{}
	}
	c.tendAll()
}

// create makes a Service of a kind that chance decides.
func (c *chaos) create() {
	c.t.Helper()
	c.made++
	c.createNamed(fmt.Sprintf("s%d", c.made))
}

func (c *chaos) createNamed(name string) {
	c.t.Helper()
	svc := balanced(name)
	if c.random.IntN(2) == 0 {
		class(svc)
	}
	c.chooseFamilies(svc)
	if c.random.IntN(8) == 0 {
		lingering(svc)
	}
	switch c.random.IntN(10) {
	case 0, 1, 2:
		c.share(svc)
	case 3, 4:
		c.ask(svc)
	case 5:
		svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		svc.Namespace = "other"
	}
	c.add(svc)
}

func (c *chaos) add(svc *v1.Service) {
	c.t.Helper()
	_, err := c.Client.CoreV1().Services(svc.Namespace).Create(c.t.Context(), svc, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return // the one that was deleted is still there
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.services[nameOf(svc)] = len(svc.Finalizers) > 0
}

func balanced(name string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1.ServiceSpec{
		Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": name},
		AllocateLoadBalancerNodePorts: new(bool),
	}}
}

func (c *chaos) chooseFamilies(svc *v1.Service) {
	switch c.random.IntN(4) {
	case 0:
		bothFamilies(svc)
	case 1:
		families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol)(svc)
	case 2:
		families(v1.IPFamilyPolicyPreferDualStack, v1.IPv6Protocol, v1.IPv4Protocol)(svc)
	}
}

// share has a Service share with others of its group. Those of half of the groups ask for
// the same address, too. Now and then one asks for a port that another has.
func (c *chaos) share(svc *v1.Service) {
	group := c.random.IntN(8)
	if group%2 == 1 {
		svc.Namespace = "other"
	}
	annotated(keysOfSharing[group%2], fmt.Sprint("group", group))(svc)
	c.groups[group]++
	svc.Spec.Ports[0].Port = 1000 + c.groups[group]
	switch {
	case group < 4:
		families(v1.IPFamilyPolicySingleStack, v1.IPv4Protocol)(svc)
		annotated("plinth.dev/ips", fmt.Sprintf("203.0.113.%d", 120+group))(svc)
	case c.random.IntN(5) == 0:
		svc.Spec.Ports[0].Port--
	}
}

// ask has a Service ask for an address of each of its families that nobody else asks for.
func (c *chaos) ask(svc *v1.Service) {
	if c.asked == 120 {
		return
	}
	var ips []string
	for _, f := range svc.Spec.IPFamilies {
		ips = append(ips, map[v1.IPFamily]string{v1.IPv4Protocol: fmt.Sprintf("203.0.113.%d", c.asked), v1.IPv6Protocol: fmt.Sprintf("2001:db8:3::%x", c.asked+1)}[f])
	}
	if len(ips) == 0 { // the API server chooses the first family of the cluster
		ips = []string{fmt.Sprintf("203.0.113.%d", c.asked)}
	}
	annotated("plinth.dev/ips", strings.Join(ips, ","))(svc)
	c.asked++
}

// churn has one Service come, go or change.
func (c *chaos) churn() {
	c.t.Helper()
	names := slices.Sorted(maps.Keys(c.services))
	name := names[c.random.IntN(len(names))]
	switch what := c.random.IntN(10); {
	case what < 2 || len(names) < crowd:
		c.create()
	case what < 4:
		c.delete(name)
	case what < 6 && len(c.gone) > 0:
		c.createNamed(c.gone[c.random.IntN(len(c.gone))])
	case what < 8:
		c.edit(name)
	case what < 9:
		c.succeed(names)
	case len(c.going) > 0:
		c.finish(c.going[0])
		c.going = c.going[1:]
	}
}

// succeed has a new Service ask for the address of one that is deleted then: for a moment
// the one gives back what the other waits for.
func (c *chaos) succeed(names []string) {
	c.t.Helper()
	for _, i := range c.random.Perm(len(names)) {
		svc := c.get(names[i])
		ips := svc.Annotations["plinth.dev/ips"]
		if ips == "" || sharingKey(svc) != "" || svc.Spec.Type != v1.ServiceTypeLoadBalancer {
			continue
		}
		c.made++
		heir := balanced(fmt.Sprintf("s%d", c.made))
		heir.Namespace = svc.Namespace
		heir.Spec.IPFamilyPolicy, heir.Spec.IPFamilies = svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies
		annotated("plinth.dev/ips", ips)(heir)
		c.add(heir)
		c.delete(names[i])
		c.gone = without(c.gone, svc.Name) // who came by that name would take the address again
		return
	}
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}

func (c *chaos) get(name string) *v1.Service {
	c.t.Helper()
	namespace, short, _ := strings.Cut(name, "/")
	svc, err := c.Client.CoreV1().Services(namespace).Get(c.t.Context(), short, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return svc
}

func (c *chaos) delete(name string) {
	c.t.Helper()
	namespace, short, _ := strings.Cut(name, "/")
	if err := c.Client.CoreV1().Services(namespace).Delete(c.t.Context(), short, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if c.services[name] {
		c.going = append(c.going, name)
	} else {
		c.gone = append(c.gone, short)
	}
	delete(c.services, name)
}

// finish takes the finalizer off that another program has on a Service.
func (c *chaos) finish(name string) {
	c.t.Helper()
	c.patch(name, types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/hold"]}}`)
}

// letGo takes off all such finalizers.
func (c *chaos) letGo() {
	c.t.Helper()
	for _, name := range c.going {
		c.finish(name)
	}
	c.going = nil
}

func (c *chaos) patch(name string, kind types.PatchType, patch string) {
	c.t.Helper()
	namespace, short, _ := strings.Cut(name, "/")
	if _, err := c.Client.CoreV1().Services(namespace).Patch(c.t.Context(), short, kind, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
}

// edit has a Service ask for something else, or for the same in other words.
func (c *chaos) edit(name string) {
	c.t.Helper()
	svc := c.get(name)
	switch what, sharing := c.random.IntN(5), sharingKey(svc) != ""; {
	case svc.Spec.Type == v1.ServiceTypeClusterIP:
		c.patch(name, types.MergePatchType, `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`)
	case what == 0:
		c.patch(name, types.MergePatchType, `{"spec":{"type":"ClusterIP","loadBalancerClass":null,"allocateLoadBalancerNodePorts":null,"externalTrafficPolicy":null}}`)
	case what == 1:
		c.patch(name, types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{"edited":"%d"}}}`, c.random.IntN(1000)))
	case sharing:
	case what == 2:
		c.patch(name, types.MergePatchType, fmt.Sprintf(`{"spec":{"ports":[{"port":%d}]}}`, 2000+c.random.IntN(1000)))
	case what == 3:
		c.ask(svc)
		c.patch(name, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{"plinth.dev/ips":%q}}}`, svc.Annotations["plinth.dev/ips"]))
	case len(svc.Spec.IPFamilies) == 2 && svc.Annotations["plinth.dev/ips"] == "":
		c.patch(name, types.MergePatchType, fmt.Sprintf(`{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":[%q],"clusterIPs":[%q]}}`, svc.Spec.IPFamilies[0], svc.Spec.ClusterIPs[0]))
	}
}
