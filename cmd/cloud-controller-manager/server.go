package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/cloud-provider/options"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"plinth.dev/plinth/wake"
)

// How often the API server is asked whether it is there, how long it has for an answer, and
// for how long it is asked: less than a startup probe waits, and then the framework asks on.
const (
	askEvery     = time.Second
	answerWithin = 5 * time.Second
	askFor       = 20 * time.Second
)

// awaitServer makes a command wait for the API server before it runs, and say so. The framework
// says nothing for half a minute and more where the server's address is silent, and ends the
// process then. Where connections are refused, its leader election asks on for as long as it
// takes.
func awaitServer(command *cobra.Command, opts *options.CloudControllerManagerOptions) {
	runs := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := logAsAsked(cmd.Flags()); err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags(opts.Master, opts.Generic.ClientConnection.Kubeconfig)
		if err != nil {
			return fmt.Errorf("how to reach the API server: %w", err)
		}
		if !opts.SecureServing.PermitPortSharing {
			if err := isFree(opts.SecureServing.BindAddress.String(), opts.SecureServing.BindPort); err != nil {
				return err
			}
		}
		if err := untilItAnswers(cmd.Context(), config, askFor); err != nil {
			return err
		}
		return runs(cmd, args)
	}
}

// isFree is an error where another program has the port for health and metrics. The framework says so, too, without whose it may
// be.
func isFree(address string, port int) error {
	if port <= 0 {
		return nil // it serves nothing
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err == nil {
		return l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program of this machine has port %d of %s, which a cloud controller manager serves health and metrics at: another one is here, or one that is about to end; "+
			"end the other one (k3s and RKE2: disable-cloud-controller: true), or choose another port with --secure-port: %w", port, address, err)
	}
	return nil // the framework says what is wrong
}

// logAsAsked sets up the log by its flags, so that messages from before the framework begins, which takes up the flags
// later, look like those that follow.
func logAsAsked(flags *pflag.FlagSet) error {
	config, same := logsapi.NewLoggingConfiguration(), pflag.NewFlagSet("log", pflag.ContinueOnError)
	logsapi.AddFlags(config, same)
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		if same.Lookup(f.Name) != nil {
			errs = append(errs, same.Set(f.Name, f.Value.String()))
		}
	})
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	return errors.Join(append(errs, logsapi.ValidateAndApply(config, utilfeature.DefaultFeatureGate))...)
}

// untilItAnswers returns when the API server answers, whatever that is but a fault of its
// own, or when the time is over. It says once for each reason why it waits.
func untilItAnswers(ctx context.Context, config *rest.Config, limit time.Duration) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("how to reach the API server: %w", err)
	}
	said, end := "", time.Now().Add(limit)
	for {
		err := answer(ctx, client)
		switch {
		case err == nil && said != "":
			klog.InfoS("Reached the API server", "server", config.Host)
			return nil
		case err == nil:
			return nil
		case time.Now().After(end):
			klog.InfoS("Going on without an answer of the API server", "server", config.Host, "err", err)
			return nil
		case err.Error() != said:
			said = err.Error()
			klog.InfoS("Waiting for the API server", "server", config.Host, "err", err)
		}
		if !wake.After(ctx, askEvery) {
			return ctx.Err()
		}
	}
}

// answer asks whether the API server is healthy. That it does not tell us is an answer too.
func answer(ctx context.Context, client *discovery.DiscoveryClient) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	code := 0
	err := client.RESTClient().Get().AbsPath("/healthz").Do(ctx).StatusCode(&code).Error()
	switch {
	case code >= http.StatusInternalServerError:
		return errors.Join(fmt.Errorf("it is not healthy: it answers with status %d", code), err)
	case code > 0:
		return nil
	}
	return err
}
