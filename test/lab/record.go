package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// record is all that must be known to remove a lab, written to the disk before
// the thing itself is made.
type record struct {
	Name      string
	Slot      int    // tells labs apart where they touch the host
	Dir       string // kubeconfig, certificates, logs, etcd's data
	Root      string // of the source tree
	Topology  Topology
	Processes []Process
	Places    []string // folders and files of the host, made for real machines to mount theirs over
}

func recordPath(name string) string { return filepath.Join(runDir(name), "lab.json") }

func (r *record) save() error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temporary := recordPath(r.Name) + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("writing the record of lab %s: %w", r.Name, err)
	}
	return os.Rename(temporary, recordPath(r.Name))
}

// readRecord returns the record of a lab; errors.Is os.ErrNotExist when there is none.
func readRecord(name string) (*record, error) {
	data, err := os.ReadFile(recordPath(name))
	if err != nil {
		return nil, err
	}
	r := new(record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordPath(name), err)
	}
	return r, nil
}

// Names returns the names of all labs on this machine that have a record.
func Names() ([]string, error) {
	entries, err := os.ReadDir(runFolder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(recordPath(e.Name())); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// errExists is returned by claim when a lab of that name is there already.
var errExists = errors.New("there is a lab of that name already")

// claim writes the first record of a lab, with a slot that no other lab on this
// machine has.
func claim(r *record) error {
	unlock, err := lockLabs()
	if err != nil {
		return err
	}
	defer unlock()
	names, err := Names()
	if err != nil {
		return err
	}
	var taken []int
	for _, name := range names {
		if name == r.Name {
			return errExists
		}
		other, err := readRecord(name)
		if err != nil {
			return err
		}
		taken = append(taken, other.Slot)
	}
	for slices.Contains(taken, r.Slot) {
		r.Slot++
	}
	if r.Slot > 255 {
		return errors.New("there are 256 labs on this machine already")
	}
	if err := os.MkdirAll(runDir(r.Name), 0o755); err != nil {
		return err
	}
	return r.save()
}

// lockLabs locks the folder of all labs, which the last one to go removes: whoever waited for it looks whether it is
// still there.
func lockLabs() (unlock func(), err error) {
	for {
		if err := os.MkdirAll(runFolder, 0o755); err != nil {
			return nil, err
		}
		folder, err := os.Open(runFolder)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
			return nil, fmt.Errorf("locking %s: %w", runFolder, errors.Join(err, folder.Close()))
		}
		locked, err1 := folder.Stat()
		if now, err2 := os.Stat(runFolder); err1 == nil && err2 == nil && os.SameFile(locked, now) {
			return func() { folder.Close() }, nil
		}
		folder.Close()
	}
}

// removeRunFolder removes the folder of all labs once there is none.
func removeRunFolder() error {
	unlock, err := lockLabs()
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(runFolder); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}
