package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/buildinfo"
	"plinth.dev/plinth/provider/agent"
	"plinth.dev/plinth/routing/kernel"
)

// flags are the command line.
type flags struct {
	nodeName, namespace, kubeconfig string
	listen, metrics                 string
	stateDir, onTerm                string
	proxyHealth                     string
	logLevel, logFormat             string
	bgpPort                         int32
	protocol                        uint8
	metric                          uint32
	drainTime                       time.Duration
	setSysctls, realTime            bool
}

// Values of --on-term.
const (
	onTermLeave    = "leave"
	onTermWithdraw = "withdraw"
)

const (
	exitError = 2
	exitUsage = 3
)

// usageError is a command line that cannot be carried out.
type usageError struct{ error }

func exitCode(err error) int {
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitError
}

func newCommand() *cobra.Command {
	given := &flags{}
	root := &cobra.Command{
		Use:     "plinth-agent",
		Version: buildinfo.Version,
		Short:   "Announce VIPs and pod CIDRs from this node, and route to the pods of others",
		Long: `plinth-agent runs on every node. It announces the VIPs that the node can serve and its
pod CIDRs to the routers of its rack, and keeps routes to the pods of other nodes in
the kernel.

SIGTERM: leave. Routers in graceful restart keep the node's routes for the agent that
follows; the kernel keeps its routes. With --on-term=withdraw: drain first.
SIGUSR1: drain. Announce with GRACEFUL_SHUTDOWN (RFC 8326) for --drain-time, then
withdraw everything, and stay that way until the agent is started again.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error { return usage(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), given) },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	given.shared(root)
	given.own(root)
	runs := &cobra.Command{Use: "run", Short: "Run the agent; this is the default", Args: root.Args, RunE: root.RunE}
	given.own(runs)
	root.AddCommand(runs, &cobra.Command{
		Use: "cleanup", Short: "Remove all that bears Plinth's mark from the kernel: routes, rules and the tunnel", Args: root.Args,
		RunE: func(cmd *cobra.Command, _ []string) error { return given.table().Clear(cmd.Context()) },
	})
	return root
}

func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// shared declares the flags of every command.
func (f *flags) shared(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.Uint8Var(&f.protocol, "route-protocol", kernel.DefaultProtocol, "protocol number that marks our kernel routes")
	p.Uint32Var(&f.metric, "route-metric", kernel.DefaultMetric, "metric of our kernel routes")
	p.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	p.StringVar(&f.logFormat, "log-format", "text", "text or json")
}

// own declares the flags of run.
func (f *flags) own(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "name of this machine's Node (default $NODE_NAME)")
	set.StringVar(&f.namespace, "namespace", "kube-system", "Plinth's namespace")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as a pod of the cluster)")
	set.StringVar(&f.listen, "listen", "127.0.0.1:10268", "where to serve /healthz, /readyz, /metrics and /status")
	set.StringVar(&f.metrics, "metrics-listen", "", "where to serve /metrics to others, and nothing else (default: nowhere besides --listen)")
	set.StringVar(&f.stateDir, "state-dir", "/var/lib/plinth", "where to keep what a restart needs while the API server is away")
	set.Int32Var(&f.bgpPort, "bgp-port", 0, "port to accept BGP sessions at (default 0: only connect)")
	set.StringVar(&f.proxyHealth, "proxy-health", agent.ProxyHealthURL, "health check of kube-proxy")
	set.DurationVar(&f.drainTime, "drain-time", 10*time.Second, "how long to announce with GRACEFUL_SHUTDOWN before withdrawing")
	set.BoolVar(&f.setSysctls, "set-sysctls", false, "change kernel settings that keep packets from pods (forwarding, rp_filter); otherwise they are only reported")
	set.BoolVar(&f.realTime, "real-time", false, "go before ordinary processes (SCHED_RR), so that BFD holds on a machine whose CPUs are overcommitted; needs CAP_SYS_NICE")
	set.StringVar(&f.onTerm, "on-term", onTermLeave, "what SIGTERM means: leave (routers keep the routes) or withdraw (drain first)")
}

func (f *flags) validate() error {
	switch {
	case f.nodeName == "":
		return usage(errors.New("--node-name is not given, and $NODE_NAME is not set"))
	case f.onTerm != onTermLeave && f.onTerm != onTermWithdraw:
		return usage(fmt.Errorf("--on-term: %q is neither %q nor %q", f.onTerm, onTermLeave, onTermWithdraw))
	case f.drainTime < 0:
		return usage(fmt.Errorf("--drain-time: %v is negative", f.drainTime))
	case f.bgpPort < 0 || f.bgpPort > 65535:
		return usage(fmt.Errorf("--bgp-port: %d is not a port; 0 to 65535 are", f.bgpPort))
	}
	return nil
}

func (f *flags) table() *kernel.Table {
	return kernel.NewTable(kernel.Options{Protocol: f.protocol, Metric: f.metric})
}
