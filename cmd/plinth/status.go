package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
)

func newStatusCommand() *cobra.Command {
	var output string
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the datacenter, as the cluster reports it",
		Long: `Show the state of the datacenter, as the cluster reports it: which inventory is in
force, how many machines of each rack are ready, how many VIPs of each pool are held,
what is out of service on purpose and why, and all problems. What is out of service on
purpose (maintenance, off, a pool that drains) is no problem.

Exit codes: 0 no problems, 1 problems, 2 error.`,
		Example: `  kubectl plinth status
  plinth status -o json | jq -r '.notWell[]'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := statusWriters[output]
			if !ok {
				return exit{exitUsage, fmt.Errorf("-o %s: want text, json or yaml", output)}
			}
			client, err := cluster.client()
			if err != nil {
				return err
			}
			seen, err := look(cmd.Context(), client, cluster.namespace)
			if err != nil {
				return err
			}
			s := statusOf(seen)
			if err := write(cmd.OutOrStdout(), s); err != nil {
				return err
			}
			if len(s.NotWell) > 0 {
				return exit{code: exitDegraded}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or yaml")
	cluster.addTo(cmd)
	return cmd
}

// observed is what the cluster says of one moment, or nearly so.
type observed struct {
	inventory *inventory.Inventory
	taken     map[string]string // data of the inventory's status
	nodes     []v1.Node
	services  []v1.Service
	claims    []networkingv1.IPAddress

	controllers []v1.Pod // those of the controller; none where it runs outside of the cluster
	forbidden   string   // what the reader has no right to see, and why; empty: nothing
}

// controllerLabel is what the controller's pods are known by.
const controllerLabel = "app.kubernetes.io/name=plinth-cloud-controller-manager"

// look asks the cluster. That no inventory is in force is no error: it is the first thing
// that somebody wants to know the cause of.
func look(ctx context.Context, client kubernetes.Interface, namespace string) (observed, error) {
	inv, err := source.Accepted(ctx, client, namespace)
	if err != nil {
		return observed{}, err
	}
	taken, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, source.StatusName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return observed{}, err
	}
	nodes, err1 := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	services, err2 := client.CoreV1().Services("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.type", string(v1.ServiceTypeLoadBalancer)).String(),
	})
	held, err3 := client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: networkingv1.LabelManagedBy + "=" + lb.ManagedBy})
	controllers, err4 := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerLabel})
	forbidden := ""
	if apierrors.IsForbidden(err4) {
		controllers, forbidden, err4 = &v1.PodList{}, "whether the controller's pods run: "+err4.Error(), nil
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return observed{}, err
	}
	return observed{inv, taken.Data, nodes.Items, services.Items, held.Items, controllers.Items, forbidden}, nil
}

// status is how the datacenter is.
type status struct {
	Inventory  string       `json:"inventory"`
	Generation string       `json:"generation"`
	Racks      []rackStatus `json:"racks"`
	Pools      []poolStatus `json:"pools"`
	Services   int          `json:"services"` // of type LoadBalancer

	OutOfService []outOfService `json:"outOfService"`       // on purpose
	NotKnown     string         `json:"notKnown,omitempty"` // for want of a right; no problem of the datacenter
	NotWell      []string       `json:"notWell"`
}

// rackStatus counts the machines of a rack whose Nodes are to be there.
type rackStatus struct {
	Name        string `json:"name"`
	Machines    int    `json:"machines"`
	NodesReady  int    `json:"nodesReady"`
	FabricReady int    `json:"fabricReady"`
	// OutOfService counts machines in maintenance, whose Nodes are to be there, and those
	// that are off.
	OutOfService int `json:"outOfService"`
}

type poolStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	VIPs  int    `json:"vips"` // held
}

// statusOf judges what was seen.
func statusOf(seen observed) status {
	s := status{
		Generation: seen.taken[source.KeyGeneration], Services: len(seen.services),
		Racks: []rackStatus{}, Pools: []poolStatus{}, OutOfService: []outOfService{}, NotKnown: seen.forbidden, NotWell: []string{},
	}
	s.checkController(seen.controllers, seen.nodes)
	if seen.inventory == nil {
		s.notWell("no inventory is in force")
		s.checkProblems(seen)
		return s
	}
	s.Inventory = seen.inventory.Name
	if seen.taken[source.KeyReady] != "true" {
		s.notWell("the newest edit of the inventory is not in force")
		s.checkProblems(seen)
	}
	s.checkMachines(seen)
	s.Pools, s.OutOfService = poolsOf(seen), outOfServiceIn(seen)
	for _, service := range seen.services {
		s.checkService(service)
	}
	return s
}

// checkProblems adds those of the newest edit.
func (s *status) checkProblems(seen observed) {
	for problem := range strings.Lines(seen.taken[source.KeyProblems]) {
		s.notWell("%s", strings.TrimSpace(problem))
	}
}

// checkService looks at one Service. One of another program's class is not ours to
// judge, nor is one without a class that has a VIP from somebody.
func (s *status) checkService(service v1.Service) {
	class := service.Spec.LoadBalancerClass
	switch c := meta.FindStatusCondition(service.Status.Conditions, lb.VIPAllocated); {
	case c != nil && c.Status != metav1.ConditionTrue:
		s.notWell("service %s/%s: %s: %s", service.Namespace, service.Name, c.Reason, c.Message)
	case c == nil && (class == nil || *class == lb.LoadBalancerClass) && len(service.Status.LoadBalancer.Ingress) == 0:
		s.notWell("service %s/%s: nobody has answered it", service.Namespace, service.Name)
	}
}

func (s *status) notWell(format string, args ...any) {
	s.NotWell = append(s.NotWell, fmt.Sprintf(format, args...))
}

// checkMachines brings machines and Nodes together.
func (s *status) checkMachines(seen observed) {
	nodes := map[string]v1.Node{} // by machine
	var strangers []string
	told := map[string]bool{} // "node NAME" and "machine NAME" that have a line
	for _, n := range seen.nodes {
		m, err := seen.inventory.MachineOf(identityOf(n))
		if err != nil {
			told["node "+n.Name] = true
			strangers = append(strangers, fmt.Sprintf("node %s: %v", n.Name, err))
			continue
		}
		if other, twice := nodes[m.Name]; twice {
			told["node "+n.Name] = true
			strangers = append(strangers, fmt.Sprintf("node %s: machine %s is node %s already", n.Name, m.Name, other.Name))
			continue
		}
		nodes[m.Name] = n
		if why := misfits(seen.inventory, n); len(why) > 0 {
			told["node "+n.Name], told["machine "+m.Name] = true, true // the other end of the same
			strangers = append(strangers, why...)
		}
	}
	for _, rack := range seen.inventory.Racks {
		r := rackStatus{Name: rack.Name}
		for _, m := range rack.Machines {
			if inactive(m.State) {
				r.OutOfService++
			}
			if m.State == inventory.StateActive || m.State == inventory.StateMaintenance {
				_, has := nodes[m.Name]
				told["machine "+m.Name] = told["machine "+m.Name] || !has
				s.checkMachine(&r, m, nodes)
			}
		}
		s.Racks = append(s.Racks, r)
	}
	slices.Sort(strangers)
	s.NotWell = append(s.NotWell, strangers...)
	s.checkUnmatched(seen, told)
}

// checkMachine looks at one machine that is to have a Node.
func (s *status) checkMachine(r *rackStatus, m inventory.Machine, nodes map[string]v1.Node) {
	r.Machines++
	if m.Held {
		s.notWell("machine %s (%s) is not in the inventory any more, and is held as it was: set its state to retired if it is gone", m.Name, m.Rack)
	}
	n, ok := nodes[m.Name]
	if !ok {
		s.notWell("machine %s (%s) has no Node", m.Name, m.Rack)
		return
	}
	if c := condition(n, v1.NodeReady); c.Status == v1.ConditionTrue {
		r.NodesReady++
	} else {
		s.notWell("machine %s (%s): Node %s is not ready: %s", m.Name, m.Rack, n.Name, cmp.Or(c.Message, "nobody has said so"))
	}
	if c := condition(n, lb.FabricReady); c.Status == v1.ConditionTrue {
		r.FabricReady++
		if c.Reason == lb.FabricOutdated {
			s.notWell("machine %s (%s): its agent is of an older version than what is stored: %s", m.Name, m.Rack, c.Message)
		}
	} else {
		s.notWell("machine %s (%s): its fabric is not ready: %s", m.Name, m.Rack, cmp.Or(c.Message, "no agent has said so"))
	}
}

func condition(n v1.Node, kind v1.NodeConditionType) v1.NodeCondition {
	i := slices.IndexFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return v1.NodeCondition{}
	}
	return n.Status.Conditions[i]
}

// poolsOf counts the VIPs that are held, of each pool. One that is of no pool any
// more stays with its Service; it is counted under no name.
func poolsOf(seen observed) []poolStatus {
	pools := []poolStatus{}
	for _, p := range seen.inventory.Pools {
		pools = append(pools, poolStatus{Name: p.Name, State: string(p.State)})
	}
	outside := poolStatus{State: "no pool"}
	for _, claim := range seen.claims {
		vip, err := netip.ParseAddr(claim.Name)
		if err != nil {
			continue
		}
		p, _ := seen.inventory.PoolOf(vip)
		if i := slices.IndexFunc(pools, func(s poolStatus) bool { return s.Name == p.Name }); i >= 0 {
			pools[i].VIPs++
		} else {
			outside.VIPs++
		}
	}
	if outside.VIPs > 0 {
		pools = append(pools, outside)
	}
	return pools
}

var statusWriters = map[string]func(io.Writer, status) error{
	"text": writeStatusText,
	"json": func(w io.Writer, s status) error { return printJSON(w, s) },
	"yaml": func(w io.Writer, s status) error { return printYAML(w, s) },
}
