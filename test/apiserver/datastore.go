package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// DatastoreVariable is the environment variable that says in what API servers keep their objects: etcd, if it is empty, or
// kine with SQLite, as k3s has it.
const DatastoreVariable = "PLINTH_TEST_DATASTORE"

// datastores are the programs that speak as etcd does to an API server, with their flags.
var datastores = map[string]func(s *Server) []string{
	"etcd": func(s *Server) []string {
		client, peers := s.storeURL(), s.peerURL()
		return []string{"--data-dir=" + s.storeFolder(), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers}
	},
	"kine": func(s *Server) []string {
		return []string{"--listen-address=" + s.storeURL(), "--metrics-bind-address=0",
			"--endpoint=sqlite://" + s.storeFolder() + "/state.db?_journal=WAL&cache=shared&_busy_timeout=30000"}
	},
}

// datastore is the program that an API server is to keep its objects in.
func (s *Server) datastore() string {
	s.t.Helper()
	name := os.Getenv(DatastoreVariable)
	if name == "" {
		name = "etcd"
	}
	if datastores[name] == nil {
		s.t.Fatalf("%s=%s: a datastore is one of %v", DatastoreVariable, name, slices.Sorted(maps.Keys(datastores)))
	}
	return name
}

// startStore starts the datastore, by what starts a program.
func (s *Server) startStore(run func(program string, args ...string) *Process) *Process {
	s.t.Helper()
	if err := os.MkdirAll(s.storeFolder(), 0o700); err != nil {
		s.t.Fatal(err)
	}
	name := s.datastore()
	return run(name, datastores[name](s)...)
}

func (s *Server) storeFolder() string { return s.own("store") }

func (s *Server) storeURL() string { return fmt.Sprintf("http://%s:%d", s.Host, storePort) }

func (s *Server) peerURL() string { return fmt.Sprintf("http://%s:%d", s.Host, storePeerPort) }

// withStore speaks to the datastore as an API server does: kine takes no other transactions.
func (s *Server) withStore(do func(*kubernetes.Client) error) error {
	client, err := kubernetes.New(clientv3.Config{Endpoints: []string{s.storeURL()}, DialTimeout: 10 * time.Second})
	if err != nil {
		return fmt.Errorf("the datastore: %w", err)
	}
	defer client.Close()
	return do(client)
}

// content is what the datastore holds of Kubernetes, but what the API server keeps writing for itself.
func (s *Server) content(ctx context.Context) (map[string]*mvccpb.KeyValue, error) {
	const all = "/registry/"
	held := map[string]*mvccpb.KeyValue{}
	err := s.withStore(func(c *kubernetes.Client) error {
		answer, err := c.List(ctx, all, kubernetes.ListOptions{})
		if err != nil {
			return err
		}
		for _, kv := range answer.Kvs {
			key := string(kv.Key)
			if !strings.HasPrefix(key, "/registry/masterleases/") && !strings.HasPrefix(key, "/registry/leases/kube-system/apiserver-") {
				held[key] = kv
			}
		}
		return nil
	})
	if err == nil && len(held) == 0 {
		err = fmt.Errorf("the datastore holds nothing under %s", all)
	}
	return held, err
}

// sameValue reports whether two keys hold the same, whenever it was written.
func sameValue(a, b *mvccpb.KeyValue) bool { return bytes.Equal(a.GetValue(), b.GetValue()) }

// putBack removes what is not to be there, writes what is, and returns what that was. What somebody else writes at the same
// moment it leaves: the next look finds it.
func (s *Server) putBack(ctx context.Context, now, want map[string]*mvccpb.KeyValue) (differ []string, err error) {
	err = s.withStore(func(c *kubernetes.Client) error {
		for _, key := range slices.Sorted(maps.Keys(now)) {
			if want[key] == nil {
				differ = append(differ, key)
				if _, err := c.OptimisticDelete(ctx, key, now[key].ModRevision, kubernetes.DeleteOptions{GetOnFailure: true}); err != nil {
					return err
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if !sameValue(now[key], want[key]) {
				differ = append(differ, key)
				if err := write(ctx, c, key, want[key].Value, now[key]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return differ, err
}

// write puts a value in the place of what a key held; nil: nothing.
func write(ctx context.Context, c *kubernetes.Client, key string, value []byte, now *mvccpb.KeyValue) error {
	_, err := c.OptimisticPut(ctx, key, value, now.GetModRevision(), kubernetes.PutOptions{GetOnFailure: now != nil})
	return err
}

// put writes a key of nobody, which makes a new revision.
func (s *Server) put(ctx context.Context, times int) error {
	const key = "/nobody/nothing"
	return s.withStore(func(c *kubernetes.Client) error {
		for range times {
			now, err := c.Get(ctx, key, kubernetes.GetOptions{})
			if err != nil {
				return err
			}
			if err := write(ctx, c, key, []byte("nothing"), now.KV); err != nil {
				return err
			}
		}
		return nil
	})
}
