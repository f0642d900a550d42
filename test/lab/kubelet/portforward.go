package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"plinth.dev/plinth/test/lab/netns"
)

// Patience with a port-forward on which nothing moves, and with one that does not begin.
const (
	forwardIdle  = time.Minute
	forwardBegun = 10 * time.Second
)

// listen serves what the API server asks a kubelet for: port-forwards to its pods, on the port that
// it takes for a kubelet's. Nobody else is on the lab's network, so that nobody is asked who he is.
func (k *kubelet) listen(ctx context.Context) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey(k.Node, nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	l, err := netns.Listen(k.Netns, ":10250")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	s := &http.Server{
		Handler:      mux,
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{pair}},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // a connection is upgraded, which HTTP/2 cannot
	}
	go func() {
		if err := s.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
			k.Log.Error("serving", "err", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return nil
}

func (k *kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	p, err := k.bound.Core().V1().Pods().Lister().Pods(r.PathValue("namespace")).Get(r.PathValue("pod"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{k.netnsOf(p)}, p.Name, string(p.UID), options, forwardIdle, forwardBegun, portforward.SupportedProtocols)
}

func (k *kubelet) netnsOf(p *corev1.Pod) string {
	if p.Spec.HostNetwork {
		return k.Netns
	}
	return PodNetns(k.Netns, p.Namespace, p.Name)
}

// forwarder connects streams with ports of the loopback of a namespace.
type forwarder struct{ netns string }

// PortForward returns when one end has closed.
func (f forwarder) PortForward(ctx context.Context, name, _ string, port int32, stream io.ReadWriteCloser) error {
	dialer := netns.NewDialer(f.netns)
	defer dialer.Close()
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("forwarding to port %d of %s: %w", port, name, err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream)
	}()
	_, err = io.Copy(stream, conn)
	return err
}
