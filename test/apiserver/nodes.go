package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Uninitialized is the taint that a kubelet with --cloud-provider=external
// registers its Node with.
func Uninitialized() v1.Taint {
	return v1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule}
}

// Ready is the condition of a Node that a kubelet reports.
func Ready(ok bool) v1.NodeCondition {
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
	if !ok {
		c.Status = v1.ConditionFalse
		c.Reason = "KubeletNotReady"
	}
	return c
}

// Initialised says why a Node is not yet.
func Initialised(n *v1.Node) error {
	for _, t := range n.Spec.Taints {
		if t.Key == Uninitialized().Key {
			return errors.New("it still has the taint")
		}
	}
	if len(n.Status.Addresses) < 2 {
		return fmt.Errorf("its addresses are %v", n.Status.Addresses)
	}
	return nil
}

// CreateNodes creates the Nodes of the first machines of ManyMachines, as eight
// clients at once.
func (s *Server) CreateNodes(count int) {
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < count; i += 8 {
				s.createNode(MachineName(i))
			}
		})
	}
	all.Wait()
}

func (s *Server) createNode(name string) {
	n := &v1.Node{}
	n.Name = name
	n.Spec.Taints = []v1.Taint{Uninitialized()}
	n.Status.Conditions = []v1.NodeCondition{Ready(true)}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}}
	if _, err := s.Client.CoreV1().Nodes().Create(s.t.Context(), n, metav1.CreateOptions{FieldManager: "kubelet"}); err != nil {
		s.t.Error(err)
	}
}

// AwaitInitialised waits until that many Nodes are initialised.
func (s *Server) AwaitInitialised(limit time.Duration, count int) {
	s.t.Helper()
	s.Eventually(limit, "all nodes are initialised", func(ctx context.Context) error {
		list, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		done := 0
		for i := range list.Items {
			if Initialised(&list.Items[i]) == nil {
				done++
			}
		}
		if done < count {
			time.Sleep(100 * time.Millisecond) // a list of all Nodes is work for the server that is measured
			return fmt.Errorf("%d of %d", done, count)
		}
		return nil
	})
}
