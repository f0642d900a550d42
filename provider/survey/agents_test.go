package survey

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/provider/agent/report"
)

// kubelets forward ports of pods as an API server has kubelets do, over bare SPDY: WebSocket is
// refused as an older one refuses it.
type kubelets struct {
	answer func(pod string, data, errs io.WriteCloser)
	status int // instead of an upgrade; 0: none

	mu    sync.Mutex
	asked []string
}

func (k *kubelets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(k.status)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"pods is forbidden: jane cannot create pods/portforward","code":%d}`, k.status)
		return
	}
	if !strings.HasPrefix(r.Header.Get("Upgrade"), "SPDY") {
		http.Error(w, "no WebSocket here", http.StatusBadRequest)
		return
	}
	pod := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/pods/"), "/")[0]
	k.mu.Lock()
	k.asked = append(k.asked, r.Method+" "+r.URL.Path)
	k.mu.Unlock()
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	errs, data := <-streams, <-streams
	if errs.Headers().Get(v1.StreamType) != v1.StreamTypeError || data.Headers().Get(v1.PortHeader) != "10268" {
		_, _ = fmt.Fprintf(errs, "streams %v and %v", errs.Headers(), data.Headers())
	} else if req, err := http.ReadRequest(bufio.NewReader(data)); err != nil || req.URL.Path != "/status" {
		_, _ = fmt.Fprintf(errs, "asked %v, %v", req, err)
	} else {
		k.answer(pod, data, errs)
	}
	_, _ = data.Close(), errs.Close()
	<-conn.CloseChan()
}

func (k *kubelets) asker(t *testing.T) Asker {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	reader, err := New(config, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	return NewAsker(config, reader, 10268)
}

func says(node string) string {
	return fmt.Sprintf(`{"node":%q,"sessions":[{"router":"tor","up":true,"announced":["192.168.50.1/32"]}]}`, node)
}

// agentsOn are running pods of agents, one on each Node.
func agentsOn(n int) (pods []diagnose.Pod, nodes []string) {
	for i := range n {
		pods = append(pods, diagnose.Pod{Name: fmt.Sprintf("agent-%d", i), Node: fmt.Sprintf("w%d", i)})
		nodes = append(nodes, fmt.Sprintf("w%d", i))
	}
	return pods, nodes
}

func TestAgentsAreAskedSideBySideAndNoMoreThanSoManyAtOnce(t *testing.T) {
	arrived, release := make(chan string, 100), make(chan struct{})
	var asked, highest atomic.Int64
	k := &kubelets{answer: func(pod string, data, _ io.WriteCloser) {
		n := asked.Add(1)
		for old := highest.Load(); n > old && !highest.CompareAndSwap(old, n); old = highest.Load() {
		}
		arrived <- pod
		<-release
		asked.Add(-1) // before the answer: with that the next one is asked
		text := says("w" + strings.TrimPrefix(pod, "agent-"))
		_, _ = fmt.Fprintf(data, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}}
	a := k.asker(t)
	a.perMoment = 8
	pods, nodes := agentsOn(40)
	go func() {
		for range a.perMoment {
			<-arrived // so many are asked before any has answered
		}
		close(release)
	}()
	got := a.Ask(t.Context(), pods, nodes)
	if len(got) != 40 || highest.Load() != 8 {
		t.Errorf("%d answers, %d at once", len(got), highest.Load())
	}
	for node, answer := range got {
		want := diagnose.AgentSession{Router: "tor", Up: true, Announced: []netip.Prefix{netip.MustParsePrefix("192.168.50.1/32")}}
		if answer.Err != "" || answer.Agent.Node != node || len(answer.Agent.Sessions) != 1 || !reflect.DeepEqual(answer.Agent.Sessions[0], want) {
			t.Fatalf("%s: %+v", node, answer)
		}
	}
	for _, asked := range k.asked {
		if !strings.HasPrefix(asked, "POST ") || !strings.HasSuffix(asked, "/portforward") {
			t.Errorf("it asks %s", asked)
		}
	}
}

func TestWhyAnAgentCouldNotBeAskedIsSaid(t *testing.T) {
	for want, k := range map[string]*kubelets{
		"it takes the right to create pods/portforward": {status: http.StatusForbidden},
		"dial tcp4 127.0.0.1:10268: connection refused": {answer: func(_ string, _, errs io.WriteCloser) {
			_, _ = io.WriteString(errs, "error forwarding port 10268: dial tcp4 127.0.0.1:10268: connection refused")
		}},
		"its agent answers 503 Service Unavailable": {answer: func(_ string, data, _ io.WriteCloser) {
			_, _ = io.WriteString(data, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		}},
		"no answer within 200ms": {answer: func(_ string, data, _ io.WriteCloser) { _, _ = io.Copy(io.Discard, data.(io.Reader)) }},
	} {
		a := k.asker(t)
		a.perAgent = 10 * time.Second
		if strings.HasPrefix(want, "no answer") {
			a.perAgent = 200 * time.Millisecond
		}
		pods, nodes := agentsOn(1)
		if got := a.Ask(t.Context(), pods, nodes)["w0"]; !strings.Contains(got.Err, want) || !strings.HasPrefix(got.Err, "pod agent-0: ") {
			t.Errorf("it says %q, want %q", got.Err, want)
		}
	}
}

func TestANodeWithoutARunningAgentIsNotAsked(t *testing.T) {
	a := (&kubelets{}).asker(t)
	pods := []diagnose.Pod{{Name: "agent-0", Node: "w0", Pending: "ImagePullBackOff"}}
	got := a.Ask(t.Context(), pods, []string{"w0", "w1"})
	if got["w0"].Err != "pod agent-0 does not run: ImagePullBackOff" || got["w1"].Err != "no pod of the agent runs on this Node" {
		t.Errorf("%+v", got)
	}
}

// What agents say and what is read of it have the same names and forms.
func TestWhatAnAgentSaysIsUnderstood(t *testing.T) {
	var said report.Status
	fillAll(reflect.ValueOf(&said).Elem())
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	var read diagnose.Agent
	text = []byte(strings.ReplaceAll(string(text), `"announced":["x"]`, `"announced":["192.0.2.1/32"]`))
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if empty := emptyIn(reflect.ValueOf(read), "Agent"); len(empty) > 0 {
		t.Errorf("agents do not say %s; they say\n%s", strings.Join(empty, ", "), text)
	}
}

// fillAll gives every exported field a value.
func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if at, is := v.Addr().Interface().(*time.Time); is {
			*at = noon.Time
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillAll(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	}
}

// emptyIn are the fields that have no value.
func emptyIn(v reflect.Value, path string) (out []string) {
	switch v.Kind() {
	case reflect.Struct:
		if _, is := v.Interface().(time.Time); is || v.Type() == reflect.TypeFor[netip.Prefix]() {
			break
		}
		for i := range v.NumField() {
			out = append(out, emptyIn(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
		return out
	case reflect.Slice:
		if v.Len() > 0 {
			return emptyIn(v.Index(0), path)
		}
	}
	if v.IsZero() {
		return []string{path}
	}
	return nil
}

// Where no agent has a pod, the API server's proxy to Nodes leads to them.
func TestAgentsWithoutPodsAreAskedAtTheirNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/nodes/w1:10268/proxy/status":
			_, _ = io.WriteString(w, says("w1"))
		case "/api/v1/nodes/w2:10268/proxy/status":
			http.Error(w, "dial tcp 10.0.0.2:10268: connection refused", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"nodes w3 is forbidden","code":403}`)
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	reader, err := New(config, "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	got := NewAsker(config, reader, 10268).Ask(t.Context(), nil, []string{"w1", "w2", "w3"})
	if a := got["w1"]; a.Err != "" || a.Agent.Node != "w1" || len(a.Agent.Sessions) != 1 {
		t.Errorf("w1: %+v", a)
	}
	if a := got["w2"]; !strings.Contains(a.Err, "none answers at port 10268") || !strings.Contains(a.Help, "Agents that are no pods") {
		t.Errorf("w2: %+v", a)
	}
	if a := got["w3"]; !strings.Contains(a.Err, "it takes the right to get nodes/proxy") || !strings.Contains(a.Help, "rights") {
		t.Errorf("w3: %+v", a)
	}
}
