package apiserver

import (
	"os"
	"path/filepath"
)

// Backup is a copy of all that etcd held at one moment.
type Backup struct{ folder string }

// Backup copies what etcd holds. It stops the API server and etcd for that.
func (s *Server) Backup() Backup {
	s.t.Helper()
	b := Backup{folder: s.t.TempDir()}
	s.whileStopped(func() error { return os.CopyFS(filepath.Join(b.folder, "etcd"), os.DirFS(s.file("etcd"))) })
	return b
}

// Restore puts back what etcd held, as one does after a disaster: resource
// versions go back, and what was written since has never been.
func (s *Server) Restore(b Backup) {
	s.t.Helper()
	s.whileStopped(func() error {
		if err := os.RemoveAll(s.file("etcd")); err != nil {
			return err
		}
		return os.CopyFS(s.file("etcd"), os.DirFS(filepath.Join(b.folder, "etcd")))
	})
}

func (s *Server) whileStopped(do func() error) {
	s.t.Helper()
	s.restarted = true
	s.StopServer()
	s.etcd.Kill()
	err := do()
	s.startEtcd()
	s.StartServer()
	if err != nil {
		s.t.Fatal(err)
	}
}
