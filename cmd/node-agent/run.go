package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/memory"
	"plinth.dev/plinth/provider/agent"
)

const (
	// A connection that went silent is noticed within the sum of these, in seconds;
	// client-go's own defaults are 30 and 15.
	readIdleSeconds, pingSeconds = "10", "5"

	// requests a second to the API server: an agent watches, and seldom writes
	rate, burst = 20, 40

	headerTimeout = 5 * time.Second

	// garbage is collected when the heap has grown by this percentage: the agent
	// lives on every machine, and memory is dearer there than a little time
	gcPercent = 50
)

func run(ctx context.Context, f *flags) error {
	if err := f.validate(); err != nil {
		return err
	}
	if err := setLog(f.logLevel); err != nil {
		return usage(err)
	}
	debug.SetGCPercent(gcPercent)
	if f.realTime {
		if err := realTime(); err != nil {
			return err
		}
	}
	client, err := connect(f.kubeconfig)
	if err != nil {
		return err
	}
	a := agent.New(agent.Options{
		NodeName: f.nodeName, Identity: agent.ThisMachine(), Namespace: f.namespace, StateDir: f.stateDir, ProxyURL: f.proxyHealth,
		DrainTime: f.drainTime, WithdrawOnStop: f.onTerm == onTermWithdraw, SetSysctls: f.setSysctls, Client: client,
		Speaker: bgp.NewSpeaker(bgp.Options{Log: slog.Default(), ListenPort: f.bgpPort}), Table: f.table(),
	})
	stop, err := serve("listen", f.listen, a.Handler())
	if err != nil {
		return err
	}
	defer stop()
	if f.metrics != "" {
		stop, err := serve("metrics-listen", f.metrics, onlyMetrics(a.Handler()))
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	go drainOnSignal(ctx, a.Drain)
	go memory.Trim(ctx)
	return a.Run(ctx)
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

func setLog(level string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	h := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})
	slog.SetDefault(slog.New(h))
	klog.SetSlogLogger(slog.New(h))
	return nil
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	for k, v := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": readIdleSeconds, "HTTP2_PING_TIMEOUT_SECONDS": pingSeconds} {
		if os.Getenv(k) == "" {
			if err := os.Setenv(k, v); err != nil {
				return nil, err
			}
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("how to reach the API server: %w", err)
	}
	config.QPS, config.Burst = rate, burst
	config.UserAgent = "plinth-agent " + rest.DefaultKubernetesUserAgent()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(config)
}

// serve serves h until stop is called. An address that is taken is an error: two
// agents of one node would fight.
func serve(flag, addr string, h http.Handler) (stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("serving ended", "flag", flag, "err", err)
		}
	}()
	return func() { _ = s.Close() }, nil
}

// onlyMetrics keeps strangers from the rest of what h serves: a scraper has no use for it.
func onlyMetrics(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	return mux
}
