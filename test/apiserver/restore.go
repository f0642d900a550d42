package apiserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"plinth.dev/plinth/test/components"
)

// Backup is a copy of all that the datastore held at one moment.
type Backup struct{ folder string }

// Backup copies what the datastore holds. It stops the API server and the datastore for that.
func (s *Server) Backup() Backup {
	s.t.Helper()
	b := Backup{folder: s.t.TempDir()}
	s.whileStopped(func() error { return os.CopyFS(filepath.Join(b.folder, "store"), os.DirFS(s.storeFolder())) })
	return b
}

// Restore puts back what the datastore held, as one does after a disaster: resource
// versions go back, and what was written since has never been.
func (s *Server) Restore(b Backup) { s.SlowRestore(b, func() {}) }

// SlowRestore is Restore by somebody who does something else before the API server
// starts again.
func (s *Server) SlowRestore(b Backup, meanwhile func()) {
	s.t.Helper()
	s.whileStopped(func() error {
		meanwhile()
		if err := os.RemoveAll(s.storeFolder()); err != nil {
			return err
		}
		return os.CopyFS(s.storeFolder(), os.DirFS(filepath.Join(b.folder, "store")))
	})
}

// RestoreBumped is SlowRestore as etcd's manual says it for clusters of Kubernetes, with
// etcdutl: resource versions go on from far above all that were ever given.
func (s *Server) RestoreBumped(b Backup, meanwhile func()) {
	s.t.Helper()
	etcdutl, err := components.File("etcdutl")
	if err != nil {
		s.t.Fatal(err)
	}
	s.whileStopped(func() error {
		meanwhile()
		if err := os.RemoveAll(s.storeFolder()); err != nil {
			return err
		}
		peers := s.peerURL()
		out, err := exec.Command(etcdutl, "snapshot", "restore", filepath.Join(b.folder, "store", "member", "snap", "db"),
			"--skip-hash-check", // which a copy of the file does not have
			"--data-dir="+s.storeFolder(), "--bump-revision=1000000000", "--mark-compacted",
			"--initial-cluster=default="+peers, "--initial-advertise-peer-urls="+peers).CombinedOutput()
		if err != nil {
			return fmt.Errorf("etcdutl: %w: %s", err, out)
		}
		return nil
	})
}

func (s *Server) whileStopped(do func() error) {
	s.t.Helper()
	s.StopServer()
	s.store.Terminate() // else the last writes may stand in its log alone, which a restore of the snapshot leaves out
	err := do()
	s.store = s.startStore(s.run)
	s.StartServer()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Expire restarts the API server, and meanwhile writes so much to the datastore past it
// that no watch can be resumed where it was broken off.
func (s *Server) Expire() {
	s.t.Helper()
	s.StopServer()
	if err := s.put(s.t.Context(), 100); err != nil {
		s.t.Fatal(err)
	}
	s.StartServer()
}
