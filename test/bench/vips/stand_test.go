package vips

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/procfs"
)

const (
	machine   = "w1"
	namespace = "default" // of the Services
	pool      = "10.99.0.0/16"
)

// stand is an API server with one machine and its router, and the means to run
// either contender.
type stand struct {
	*apiserver.Controller
	b      *testing.B
	router *router
	fast   kubernetes.Interface // speaks protobuf, so that it takes little of the machine's time
	proxy  string               // a health check of kube-proxy that always succeeds
	agent  string               // kubeconfig of the agent
}

// contender is one of those that take turns, in two parts.
type contender struct {
	name       string
	ours       bool                      // Plinth, as it is or as it was
	controller func() *apiserver.Process // gives addresses
	speaker    func() *apiserver.Process // tells the router
	deletions  int                       // a round, each with a creation right after it
}

func newStand(b *testing.B) *stand {
	b.Helper()
	s := &stand{b: b, router: newRouter(b)} // first: the API server wants an address to advertise
	s.Controller = apiserver.NewController(b, apiserver.Options{Unaudited: true, Flags: []string{"--advertise-address=" + machineAddr}})
	config := rest.CopyConfig(s.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	check(b, err)
	s.fast = client
	s.ApplyRights("rbac-agent.yaml")
	s.agent = s.WriteKubeconfig("agent", s.AccountToken("plinth-agent"))
	s.serveProxy()
	s.createNode()
	s.EditInventory(fmt.Sprintf(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: %d}
  routers: [{name: tor, address: %s, asn: %d}]
  pools: [{name: public, addresses: [%s]}]
  racks: [{name: r1, machines: [{name: %s, addresses: [%s]}]}]
`, machineASN, routerAddr, routerASN, pool, machine, machineAddr), nil)
	if wanted("metallb") {
		s.installMetalLB()
	}
	return s
}

func (s *stand) serveProxy() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(s.b, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "{}") })}
	go func() { _ = server.Serve(l) }()
	s.b.Cleanup(func() { _ = server.Close() })
	s.proxy = "http://" + l.Addr().String() + "/healthz"
}

func (s *stand) createNode() {
	n := &corev1.Node{}
	n.Name = machine
	n.Spec.Taints = []corev1.Taint{apiserver.Uninitialized()}
	n.Status.Conditions = []corev1.NodeCondition{apiserver.Ready(true)}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: machineAddr}, {Type: corev1.NodeHostName, Address: machine}}
	_, err := s.Client.CoreV1().Nodes().Create(s.b.Context(), n, metav1.CreateOptions{})
	check(s.b, err)
}

// plinth is Plinth as it comes.
func (s *stand) plinth() contender {
	dir := s.b.TempDir()
	return contender{
		name:       "plinth",
		ours:       true,
		deletions:  50,
		controller: func() *apiserver.Process { return s.Launch() },
		speaker: func() *apiserver.Process {
			return s.Spawn(program("plinth-agent"), "--node-name="+machine, "--kubeconfig="+s.agent, "--state-dir="+dir, "--proxy-health="+s.proxy)
		},
	}
}

// before is an older controller manager, with the rights and the agent of today.
func (s *stand) before() contender {
	c := s.plinth()
	c.name = "before"
	c.controller = func() *apiserver.Process {
		return s.Spawn(program("plinth-before"), "--kubeconfig="+s.Limited, "--secure-port=0", "--leader-elect=false")
	}
	return c
}

// floor makes Plinth's writes and decides nothing. It tells no router.
func (s *stand) floor() contender {
	a := netip.MustParsePrefix(pool).Addr().As4()
	a[2] += 64 // the others begin at the first address, and may not have given all back
	first := netip.AddrFrom4(a).String()
	return contender{
		name: "floor",
		controller: func() *apiserver.Process {
			return s.Spawn(program("plinth-floor"), "--kubeconfig="+s.Limited, "--first="+first, "--pool=public")
		},
	}
}

// contenders are those that take turns and announce what they give.
func (s *stand) contenders() []contender {
	all := []contender{s.plinth(), s.metallb(), s.before()}
	return slices.DeleteFunc(all, func(c contender) bool { return !wanted(c.name) })
}

// start starts the controller and waits until it is at work.
func (c contender) start(s *stand) *apiserver.Process {
	p := c.controller()
	if c.ours {
		s.AwaitStatus("ready", "true")
	}
	s.awaitRack()
	return p
}

// awaitRack waits until the Node has its place, without which an agent does nothing.
func (s *stand) awaitRack() {
	s.b.Helper()
	s.Eventually(30*time.Second, "the Node has its labels", func(ctx context.Context) error {
		n, err := s.Client.CoreV1().Nodes().Get(ctx, machine, metav1.GetOptions{})
		if err == nil && n.Labels["plinth.dev/rack"] == "" {
			return fmt.Errorf("they are %v", n.Labels)
		}
		return err
	})
}

// memory is how much of a process is in memory, in MB.
func (s *stand) memory(p *apiserver.Process) float64 { return s.usage(p).Memory }

// heap is memory without the program's own file, which several processes have in common.
func (s *stand) heap(p *apiserver.Process) float64 { return s.usage(p).Private }

func (s *stand) usage(p *apiserver.Process) procfs.Usage {
	s.b.Helper()
	u, err := procfs.Of(p.Pid())
	check(s.b, err)
	return u
}

var request = regexp.MustCompile(`^apiserver_request_total\{.*code="2.*,resource="([a-z]+)".*verb="(POST|PUT|PATCH|DELETE|APPLY)"[^}]*\} ([0-9.e+]+)$`)

// writes is how many writes the API server has answered well so far, by resource,
// but those of leases.
func (s *stand) writes() map[string]float64 {
	s.b.Helper()
	data, err := s.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.b.Context())
	check(s.b, err)
	all := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		if m := request.FindStringSubmatch(strings.TrimSpace(line)); m != nil && m[1] != "leases" {
			n, err := strconv.ParseFloat(m[3], 64)
			check(s.b, err)
			all[m[1]] += n
		}
	}
	return all
}

// since is how many writes there were since before, all told.
func (s *stand) since(before map[string]float64) (n float64) {
	for resource, now := range s.writes() {
		n += now - before[resource]
	}
	return n
}

// quiet waits until nobody has written for a second, and returns how many writes
// there were since before.
func (s *stand) quiet(before map[string]float64) (n float64) {
	s.b.Helper()
	changed := time.Now()
	s.Eventually(2*time.Minute, "nobody writes any more", func(context.Context) error {
		if now := s.since(before); now != n {
			n, changed = now, time.Now()
		}
		if time.Since(changed) < time.Second {
			return fmt.Errorf("%v writes so far", n)
		}
		time.Sleep(100 * time.Millisecond) // metrics are work for the server
		return nil
	})
	return n
}
