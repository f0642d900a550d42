package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// auditPolicy has the server log every write, and no content.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
`

// audit returns the flags that have the server log its writes.
func (s *Server) audit() []string {
	if s.options.Unaudited {
		return nil
	}
	return []string{"--audit-policy-file=" + s.own("audit.yaml"), "--audit-log-path=" + s.own("audit.log")}
}

// Write is a request that the server was sent to change something.
type Write struct {
	Agent       string // the program, up to the first slash of its user agent
	Verb        string // create, update, patch, delete
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Code        int // of the answer
}

// Writes returns all writes of this test so far, but those of leases, in the order in
// which they were answered.
func (s *Server) Writes() []Write {
	s.t.Helper()
	data, err := os.ReadFile(s.own("audit.log"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	var out []Write
	for line := range strings.Lines(string(data)) {
		var e struct {
			Verb           string
			UserAgent      string
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // half a line: the server is still writing it
		}
		agent, _, _ := strings.Cut(e.UserAgent, "/")
		out = append(out, Write{agent, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.ResponseStatus.Code})
	}
	return out[min(s.earlier, len(out)):]
}

// Quiet waits until a program has written nothing for two seconds, and returns
// what it wrote since the first n writes, Events included.
func (s *Server) Quiet(agent string, since int) (writes []Write) {
	s.t.Helper()
	last := time.Now()
	s.Eventually(time.Minute, agent+" is at rest", func(context.Context) error {
		now := slices.DeleteFunc(s.Writes()[since:], func(w Write) bool { return w.Agent != agent })
		if len(now) > len(writes) {
			writes, last = now, time.Now()
		}
		if time.Since(last) < 2*time.Second {
			return fmt.Errorf("%d writes so far", len(writes))
		}
		return nil
	})
	return writes
}
