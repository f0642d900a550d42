package gate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/bench/fib"
	"plinth.dev/plinth/test/lab"
)

// router is the only one, a BIRD: FRR adds 60 ms of its own to every route.
const router = "tor"

// contender is a kind of agent.
type contender struct {
	name    string
	program string // empty: that of the source tree
	flags   []string
	gated   bool
}

// contenders are those that take turns; nobody is always the one after.
func contenders(round int) []contender {
	all := []contender{{name: "gate", gated: true}, {name: "without", flags: []string{"--proxy-health="}}}
	if *older != "" {
		all = append(all, contender{name: "before", program: *older})
	}
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// stand is a lab with Plinth, and what its router's kernel routes to.
type stand struct {
	*lab.Lab
	b      *testing.B
	routes *fib.Table
}

// newStand starts a lab of some machines, which lasts until close. Where the router is to
// forget at once what an agent that ends has told it, there is no graceful restart.
func newStand(b *testing.B, proxyMode string, machines int, forgets bool, pools ...string) *stand {
	b.Helper()
	t := lab.Topology{
		Name: labName, ProxyMode: proxyMode, ProxyMinSync: *minSync,
		Routers: []lab.Router{{Name: router, OS: lab.BIRD, ASN: 65101}},
		Racks:   []lab.Rack{{Name: "r1", Routers: []string{router}}},
	}
	for i := range machines {
		t.Racks[0].Machines = append(t.Racks[0].Machines, lab.Machine{Name: fmt.Sprintf("w%d", i+1)})
	}
	inventory := lab.Inventory(t)
	if forgets {
		inventory = strings.Replace(inventory, "{restartTime: 20s}", `"off"`, 1)
	}
	for i, addresses := range pools {
		inventory += "---\n" + lab.Pool(t, fmt.Sprintf("pool%d", i), addresses)
	}
	l, err := lab.Start(b.Context(), t, lab.Options{Name: labName, Progress: os.Stderr})
	check(b, err)
	routes, err := fib.Follow(l.Namespace(router))
	check(b, err)
	check(b, l.StartPlinth(b.Context(), inventory))
	return &stand{l, b, routes}
}

func (s *stand) close() {
	s.b.Helper()
	check(s.b, s.routes.Close())
	check(s.b, s.Down(context.Background()))
}

// stop ends all agents.
func (s *stand) stop() {
	s.b.Helper()
	for _, m := range s.Topology.Machines() {
		check(s.b, s.StopAgent(s.b.Context(), m.Name, syscall.SIGTERM))
	}
}

// start starts agents of a contender, with the tokens that there are.
func (s *stand) start(c contender) {
	s.b.Helper()
	s.AgentProgram = c.program
	for _, m := range s.Topology.Machines() {
		check(s.b, s.StartAgentAgain(m.Name, c.flags...))
	}
}

// ready waits until the agents say that all is well.
func (s *stand) ready() {
	s.b.Helper()
	for _, m := range s.Topology.Machines() {
		check(s.b, s.WaitSessions(s.b.Context(), m.Name))
	}
	check(s.b, s.WaitFabric(s.b.Context()))
}

// forgetState has the next agents know of none before them.
func (s *stand) forgetState() {
	s.b.Helper()
	for _, m := range s.Topology.Machines() {
		entries, err := filepath.Glob(filepath.Join(s.Dir(), "agents", m.Name, "*"))
		check(s.b, err)
		for _, e := range entries {
			check(s.b, os.RemoveAll(e))
		}
	}
}

var waited = regexp.MustCompile(`(?m)^plinth_agent_proxy_rules_wait_seconds_count\{evidence="(\w+)"\} (\d+)$`)

// gated returns how many VIPs the agents of a turn have announced without evidence when the
// bound was over. That those with a gate asked, and the others did not, is made sure of.
func (s *stand) gated(c contender, least int) (overdue int) {
	s.b.Helper()
	by := map[string]int{}
	for _, m := range s.Topology.Machines() {
		text, err := s.AgentMetrics(s.b.Context(), m.Name)
		check(s.b, err)
		for _, match := range waited.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(match[2])
			by[match[1]] += n
		}
	}
	if c.gated && by["present"]+by["overdue"] < least || !c.gated && len(by) > 0 {
		s.b.Fatalf("agents %q have asked for kube-proxy's rules: %v, where %d VIPs came", c.name, by, least)
	}
	return by["overdue"]
}

// await waits until ok, which sees the router's routes.
func (s *stand) await(limit time.Duration, what string, ok func(fib.View) bool) {
	s.b.Helper()
	if err := s.routes.Await(limit, ok); err != nil {
		s.b.Fatalf("%s: %v", what, err)
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
