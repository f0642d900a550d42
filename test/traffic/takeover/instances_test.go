package takeover

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"plinth.dev/plinth/test/lab"
)

// instances are another balancer's, one on each machine.
type instances struct {
	t       *testing.T
	l       *lab.Lab
	program string
	command func(machine string) []string // that starts one
	control func()                        // starts what it has besides
	begun   map[string]int                // on a machine, so far
}

func (k *instances) name(machine string) string {
	return fmt.Sprintf("%s-%d-%s", k.program, k.begun[machine], machine)
}

// begin starts one on each machine.
func (k *instances) begin() {
	k.t.Helper()
	for _, m := range k.l.Topology.Machines() {
		k.beginOn(m.Name)
	}
}

func (k *instances) beginOn(machine string) {
	k.t.Helper()
	if k.begun == nil {
		k.begun = map[string]int{}
	}
	k.begun[machine]++
	_, err := k.l.Run(machine, k.name(machine), k.command(machine)...)
	must(k.t, err)
}

// end ends all at once, as kubelets end the pods of a DaemonSet that is deleted.
func (k *instances) end(with syscall.Signal) {
	k.t.Helper()
	atOnce(k.t, k.l, func(machine string) error { return k.endOn(machine, with) })
}

func (k *instances) endOn(machine string, with syscall.Signal) error {
	return k.l.Stop(k.t.Context(), k.name(machine), with)
}

// stopAgents ends Plinth's agents in the same way.
func stopAgents(t *testing.T, l *lab.Lab) {
	t.Helper()
	atOnce(t, l, func(machine string) error { return l.StopAgent(t.Context(), machine, syscall.SIGTERM) })
}

// atOnce does something with all machines, and waits until it is done.
func atOnce(t *testing.T, l *lab.Lab, do func(machine string) error) {
	t.Helper()
	var done sync.WaitGroup
	for _, m := range l.Topology.Machines() {
		done.Go(func() {
			if err := do(m.Name); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}
