package survey

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"plinth.dev/plinth/diagnose"
)

// Bounds of asking agents: so many at once, so long each, and so much of an answer. A machine
// with 1,000 VIPs and two routers says 100 kB.
const (
	atOnce      = 32
	askTimeout  = 10 * time.Second
	answerBytes = 64 << 20
)

// Asker asks agents for their status, each by a port-forward to its pod: they listen on the
// loopback of their machines, and answer nobody else. Where none has a pod they run as programs of their machines, and
// are asked through the API server's proxy to Nodes, at their port of the Node's address. It uses
//
//	pods/portforward   create (get, over WebSocket)   in Plinth's namespace
//	nodes/proxy        get                            where agents have no pods
type Asker struct {
	dial      func(pod string) (httpstream.Dialer, error)
	fetch     func(ctx context.Context, node string) ([]byte, error) // /status of an agent without a pod
	port      int
	perAgent  time.Duration
	perMoment int
}

// NewAsker returns an asker that reaches agents at a port of their loopback.
func NewAsker(config *rest.Config, r Reader, port int) Asker {
	return Asker{port: port, perAgent: askTimeout, perMoment: atOnce, dial: func(pod string) (httpstream.Dialer, error) {
		at := r.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(r.Namespace).Name(pod).SubResource("portforward").URL()
		return dialer(config, at)
	}, fetch: func(ctx context.Context, node string) ([]byte, error) {
		return r.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(fmt.Sprintf("%s:%d", node, port)).SubResource("proxy").Suffix("status").DoRaw(ctx)
	}}
}

// dialer speaks SPDY over WebSocket (KEP-4006), and bare SPDY where the API server is older or a
// proxy lets no WebSocket through, as kubectl does.
func dialer(config *rest.Config, at *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	bare := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	tunneled, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunneled, bare, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// Ask asks the agents of Nodes, side by side. pods are those of agents. Every Node has an answer, if
// only that it could not be asked.
func (a Asker) Ask(ctx context.Context, pods []diagnose.Pod, nodes []string) map[string]diagnose.Answer {
	on := map[string]diagnose.Pod{}
	for _, p := range pods {
		if other, twice := on[p.Node]; !twice || other.Pending != "" {
			on[p.Node] = p
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers, slots := map[string]diagnose.Answer{}, make(chan struct{}, a.perMoment)
	for _, node := range nodes {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answer := a.askNode(ctx, node, on[node], len(pods) > 0)
			mu.Lock()
			defer mu.Unlock()
			answers[node] = answer
		})
	}
	wg.Wait()
	return answers
}

// askNode asks the agent of a Node, in its pod; a pod without a name is none.
func (a Asker) askNode(ctx context.Context, node string, pod diagnose.Pod, pods bool) diagnose.Answer {
	ctx, cancel := context.WithTimeout(ctx, a.perAgent)
	defer cancel()
	switch {
	case !pods:
		return a.askProgram(ctx, node)
	case pod.Name == "":
		return diagnose.Answer{Err: "no pod of the agent runs on this Node", Help: "kubectl describe daemonset plinth-agent, in Plinth's namespace"}
	case pod.Pending != "":
		return diagnose.Answer{Err: fmt.Sprintf("pod %s does not run: %s", pod.Name, pod.Pending), Help: "kubectl describe pod " + pod.Name + ", in Plinth's namespace"}
	}
	answer, err := a.ask(ctx, pod.Name)
	if err != nil {
		return diagnose.Answer{Err: fmt.Sprintf("pod %s: %v", pod.Name, err), Help: helpFor(err, "its log: kubectl logs "+pod.Name+", in Plinth's namespace")}
	}
	return diagnose.Answer{Agent: answer}
}

// askProgram asks an agent that is no pod.
func (a Asker) askProgram(ctx context.Context, node string) (answer diagnose.Answer) {
	text, err := a.fetch(ctx, node)
	if err == nil {
		err = json.Unmarshal(text, &answer.Agent)
	}
	if err != nil {
		answer.Err = fmt.Sprintf("agents have no pods, and none answers at port %d of the Node's address: %v", a.port, whyRefused(err, "get nodes/proxy"))
		answer.Help = helpFor(err, "docs/reference/agent.md, \"Agents that are no pods\"")
	}
	return answer
}

// helpFor returns the next step where an agent could not be asked: the page on rights where they lack, or else otherwise.
func helpFor(err error, otherwise string) string {
	if isForbidden(err) {
		return "docs/guides/troubleshooting.md has the rights that this takes"
	}
	return otherwise
}

func isForbidden(err error) bool {
	return apierrors.IsForbidden(err) || strings.Contains(err.Error(), "forbidden")
}

// ask asks one agent. Dialing knows no context: what is dialed too late is closed.
func (a Asker) ask(ctx context.Context, pod string) (diagnose.Agent, error) {
	dialer, err := a.dial(pod)
	if err != nil {
		return diagnose.Agent{}, err
	}
	type dialed struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialed, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialed{conn, err}
	}()
	select {
	case <-ctx.Done():
		go func() {
			if late := <-done; late.err == nil {
				_ = late.conn.Close()
			}
		}()
		return diagnose.Agent{}, fmt.Errorf("no connection within %v", a.perAgent)
	case now := <-done:
		if now.err != nil {
			return diagnose.Agent{}, whyRefused(now.err, "create pods/portforward")
		}
		defer now.conn.Close()
		stop := context.AfterFunc(ctx, func() { _ = now.conn.Close() })
		defer stop()
		answer, err := a.status(now.conn)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v", a.perAgent)
		}
		return answer, err
	}
}

// whyRefused says which right is missing, if one is.
func whyRefused(err error, right string) error {
	if isForbidden(err) {
		return fmt.Errorf("it takes the right to %s: %w", right, err)
	}
	return err
}

// status asks for /status over two streams, as portforward.PortForwarder makes them: one for what the
// kubelet says, one for the agent.
func (a Asker) status(conn httpstream.Connection) (said diagnose.Agent, err error) {
	header := http.Header{}
	header.Set(v1.StreamType, v1.StreamTypeError)
	header.Set(v1.PortHeader, strconv.Itoa(a.port))
	header.Set(v1.PortForwardRequestIDHeader, "0")
	errs, err := conn.CreateStream(header)
	if err != nil {
		return said, err
	}
	_ = errs.Close() // nothing is written to it
	header.Set(v1.StreamType, v1.StreamTypeData)
	data, err := conn.CreateStream(header)
	if err != nil {
		return said, err
	}
	defer data.Close()
	if _, err := io.WriteString(data, "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return said, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(data), nil)
	if err != nil {
		return said, errors.Join(kubeletSays(errs), err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return said, fmt.Errorf("its agent answers %s", answer.Status)
	}
	return said, json.NewDecoder(io.LimitReader(answer.Body, answerBytes)).Decode(&said)
}

// kubeletSays returns the stream of errors as an error, which says for one that nothing listens; nil: it is empty.
func kubeletSays(errs io.Reader) error {
	text, _ := io.ReadAll(io.LimitReader(errs, 4<<10))
	if len(text) == 0 {
		return nil
	}
	return errors.New(strings.TrimSpace(string(text)))
}
