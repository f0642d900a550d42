package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ReplaceBoard gives a real machine that is off another board, with another system UUID.
// Its disk stays.
func (l *Lab) ReplaceBoard(name string) error {
	return l.replace(name, func(m *Machine) { m.Boards++ })
}

// ReplaceMachine puts another machine in the place of a real one that is off: with an ID of
// its own, another board, and an empty disk.
func (l *Lab) ReplaceMachine(name, id string) error {
	return errors.Join(
		l.replace(name, func(m *Machine) { m.ID, m.Boards, m.Disks = id, m.Boards+1, m.Disks+1 }),
		os.RemoveAll(l.disk(name)))
}

func (l *Lab) replace(name string, parts func(*Machine)) error {
	if _, on := l.Process(machineName(name)); on {
		return fmt.Errorf("machine %s is on", name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.Topology.machine(name)
	if m == nil {
		return fmt.Errorf("lab %s has no machine %s", l.record.Name, name)
	}
	parts(m)
	l.record.Topology = l.Topology
	return l.record.save()
}

// machine returns a machine of the topology, to be changed in its place.
func (t Topology) machine(name string) *Machine {
	for _, r := range t.Racks {
		for i := range r.Machines {
			if r.Machines[i].Name == name {
				return &r.Machines[i]
			}
		}
	}
	return nil
}

func (l *Lab) disk(name string) string { return filepath.Join(l.Dir(), "disks", name) }

// SystemUUID is what the firmware of the machine says that it is.
func (m Machine) SystemUUID() string {
	id := "plinth lab: " + m.Name
	if m.Boards > 0 {
		id += fmt.Sprintf(", board %d", m.Boards)
	}
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// idOf is a machine-id(5) made of words.
func idOf(words ...string) string {
	sum := sha256.Sum256([]byte("plinth lab " + strings.Join(words, "/")))
	return hex.EncodeToString(sum[:16])
}

// RestartKubelet ends the kubelet of a real machine, which whoever supervises it starts again.
func (l *Lab) RestartKubelet(ctx context.Context, name string) error {
	_, err := l.InMachine(ctx, name, "pkill", "--exact", "kubelet")
	return err
}
