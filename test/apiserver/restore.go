package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"plinth.dev/plinth/test/components"
)

// Backup is a copy of all that etcd held at one moment.
type Backup struct{ folder string }

// Backup copies what etcd holds. It stops the API server and etcd for that.
func (s *Server) Backup() Backup {
	s.t.Helper()
	b := Backup{folder: s.t.TempDir()}
	s.whileStopped(func() error { return os.CopyFS(filepath.Join(b.folder, "etcd"), os.DirFS(s.own("etcd"))) })
	return b
}

// Restore puts back what etcd held, as one does after a disaster: resource
// versions go back, and what was written since has never been.
func (s *Server) Restore(b Backup) { s.SlowRestore(b, func() {}) }

// SlowRestore is Restore by somebody who does something else before the API server
// starts again.
func (s *Server) SlowRestore(b Backup, meanwhile func()) {
	s.t.Helper()
	s.whileStopped(func() error {
		meanwhile()
		if err := os.RemoveAll(s.own("etcd")); err != nil {
			return err
		}
		return os.CopyFS(s.own("etcd"), os.DirFS(filepath.Join(b.folder, "etcd")))
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
		if err := os.RemoveAll(s.own("etcd")); err != nil {
			return err
		}
		peers := s.etcdPeerURL()
		out, err := exec.Command(etcdutl, "snapshot", "restore", filepath.Join(b.folder, "etcd", "member", "snap", "db"),
			"--skip-hash-check", // which a copy of the file does not have
			"--data-dir="+s.own("etcd"), "--bump-revision=1000000000", "--mark-compacted",
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
	s.etcd.Terminate() // else the last writes may stand in its log alone, which a restore of the snapshot leaves out
	err := do()
	s.etcd = s.run("etcd", s.etcdFlags()...)
	s.StartServer()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Expire restarts the API server, and meanwhile writes so much to etcd past it
// that no watch can be resumed where it was broken off.
func (s *Server) Expire() {
	s.t.Helper()
	s.StopServer()
	for range 100 {
		if err := s.put(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.StartServer()
}

// put writes a key of nobody, which makes a new revision.
func (s *Server) put(ctx context.Context) error {
	return s.askEtcd(ctx, "put", map[string][]byte{"key": []byte("nobody"), "value": nil}, nil)
}

// askEtcd sends a request to etcd's gateway for JSON (etcd 3.6, "Why gRPC gateway") and reads the answer.
func (s *Server) askEtcd(ctx context.Context, what string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.etcdURL()+"/v3/kv/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s", got.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(got.Body).Decode(answer)
}
