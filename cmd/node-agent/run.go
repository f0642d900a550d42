package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/memory"
	"plinth.dev/plinth/provider/agent"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/wake"
)

const (
	headerTimeout = 5 * time.Second

	// garbage is collected when the heap has grown by this percentage: the agent
	// lives on every machine, and memory is dearer there than a little time
	gcPercent = 50
)

func run(ctx context.Context, flags *flags) error {
	if err := flags.validate(); err != nil {
		return err
	}
	log, err := logHandler(os.Stderr, flags.logLevel, flags.logFormat)
	if err != nil {
		return usage(err)
	}
	slog.SetDefault(slog.New(log))
	klog.SetSlogLogger(slog.New(log))
	debug.SetGCPercent(gcPercent)
	if err := serveNode(ctx, flags); err != nil {
		slog.Error("ending after an error", "err", err)
		return loggedError{err}
	}
	return nil
}

// loggedError is an error that the log has as its last line, in the format of all others.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// serveNode does the agent's work until ctx ends.
func serveNode(ctx context.Context, flags *flags) error {
	if flags.realTime {
		if err := realTime(); err != nil {
			return err
		}
	}
	client, err := connect(flags.kubeconfig)
	if err != nil {
		return err
	}
	listeners := bfd.NewListeners()
	wire, machines := links(listeners)
	served := agent.New(agent.Options{
		NodeName: flags.nodeName, Identity: disk.ThisMachine(), Namespace: flags.namespace, StateDir: flags.stateDir, ProxyURL: flags.proxyHealth,
		DrainTime: flags.drainTime, WithdrawOnStop: flags.onTerm == onTermWithdraw, SetSysctls: flags.setSysctls, Client: client, Log: slog.Default(),
		Speaker: bgp.NewSpeaker(bgp.Options{Log: slog.Default(), ListenPort: flags.bgpPort, BFD: listeners}), Table: flags.table(),
		Wire: wire, Mesh: machines,
	})
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	stop, err := flags.serve(ctx, served.Handler())
	if err != nil {
		return err
	}
	defer stop()
	go drainOnSignal(ctx, served.Drain)
	go memory.Trim(ctx)
	return served.Run(ctx)
}

// How another machine, or the witness, is asked whether it is there.
const (
	asks     = 3
	askEvery = 40 * time.Millisecond
)

// links returns the responder for VIPs on subnets, and the mesh, which knows the machines there.
func links(listeners *bfd.Listeners) (*onlink.Responder, *mesh.Mesh) {
	var wire *onlink.Responder
	machines := mesh.New(mesh.Options{
		Log: slog.Default(), Listeners: listeners,
		Answers: func(ctx context.Context, subnet netip.Prefix, addr netip.Addr) bool {
			macs, err := wire.Ask(ctx, subnet, addr, asks, askEvery)
			return err == nil && len(macs) > 0
		},
	})
	wire = onlink.New(onlink.Options{Log: logr.FromSlogHandler(slog.Default().Handler()), AnswersUntil: machines.AnswersUntil})
	return wire, machines
}

func drainOnSignal(ctx context.Context, drain func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			slog.Info("draining", "because", "SIGUSR1")
			drain()
		}
	}
}

// logLevels are the values of --log-level. The last word of an agent is an error, which each of them lets pass.
var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func logHandler(out io.Writer, level, format string) (slog.Handler, error) {
	l, ok := logLevels[strings.ToLower(level)]
	if !ok {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn and error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.NewTextHandler(out, options), nil
	case "json":
		return slog.NewJSONHandler(out, options), nil
	}
	return nil, fmt.Errorf("--log-format: %q is neither \"text\" nor \"json\"", format)
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("how to reach the API server: %w", err)
	}
	return agent.NewClient(config)
}

// listenEvery is how often an agent tries to listen at an address that is taken.
const listenEvery = 50 * time.Millisecond

// serve serves h at --listen, and its metrics at --metrics-listen, until stop is called.
func (f *flags) serve(ctx context.Context, h http.Handler) (stop func(), err error) {
	stopAll, err := serve(ctx, "listen", f.listen, h)
	if err != nil || f.metrics == "" {
		return stopAll, err
	}
	stopMetrics, err := serveOnceFree("metrics-listen", f.metrics, onlyMetrics(h))
	if err != nil {
		stopAll()
		return nil, err
	}
	return func() { stopMetrics(); stopAll() }, nil
}

// serve serves h until stop is called. An address that is taken is waited for: two agents of one
// machine would fight, and one that is to follow another has touched nothing until that has ended.
func serve(ctx context.Context, flag, addr string, handler http.Handler) (stop func(), err error) {
	listener, err := listen(ctx, addr, func() {
		slog.Warn("waiting for another agent of this machine, or another program, which listens here, to end", "flag", flag, "address", addr)
	})
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return serveAt(listener, flag, handler), nil
}

// serveOnceFree serves a handler until stop is called, and does not wait for an address that is taken: the
// agent goes on without it, and the handler is served once the address is free. What listens there need be
// no agent, and may never end.
func serveOnceFree(flag, addr string, handler http.Handler) (stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return serveAt(l, flag, handler), nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	slog.Warn("cannot serve until another program of this machine, which listens here, ends", "flag", flag, "address", addr)
	ctx, cancel := context.WithCancel(context.Background()) // stop ends it: a leaving agent has metrics until it has left
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		listener, err := listen(ctx, addr, func() {})
		if err != nil {
			if ctx.Err() == nil {
				slog.Error("cannot serve", "flag", flag, "err", err)
			}
			return
		}
		defer serveAt(listener, flag, handler)()
		slog.Info("serving, since the address is free", "flag", flag, "address", addr)
		<-ctx.Done()
	}()
	return func() { cancel(); <-ended }, nil
}

func serveAt(listener net.Listener, flag string, h http.Handler) (stop func()) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("stopped serving", "flag", flag, "err", err)
		}
	}()
	return func() { _ = server.Close(); _ = listener.Close() }
}

// listen waits while addr is taken, and calls taken once if it is.
func listen(ctx context.Context, addr string, taken func()) (net.Listener, error) {
	for first := true; ; first = false {
		l, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		if first {
			taken()
		}
		if !wake.After(ctx, listenEvery) {
			return nil, err
		}
	}
}

// onlyMetrics keeps strangers from the rest of what h serves: a scraper has no use for it.
func onlyMetrics(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	return mux
}
