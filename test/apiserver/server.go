package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plinth.dev/plinth/wait"
)

// Options say what runs besides the datastore and the API server.
type Options struct {
	Controllers bool     // kube-controller-manager, every controller of it, with --cloud-provider=external
	Scheduler   bool     // kube-scheduler
	Flags       []string // more flags of the API server
	Unaudited   bool     // Writes returns nothing, and the server has less to do
	Fresh       bool     // no other test had the server: for what measures
}

// Server is a running API server.
type Server struct {
	Config     *rest.Config // as admin, without a limit on requests
	Client     kubernetes.Interface
	Kubeconfig string // file, as admin
	Host       string // a loopback address where no other test listens

	t       testing.TB
	dir     string // of this test
	home    string // of the datastore and the API server
	options Options
	store   *Process
	server  *Process
	earlier int // writes of the tests that had the server before

	processes []*Process // all that were started, but a control plane that several tests have
	restarted bool       // was stopped, and forbids everything until it has read its roles
}

// adminToken is what the admin shows. The server is reached over loopback only.
const adminToken = "admin"

// Start starts a server for the time of a test, and waits until it serves.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	dir := t.TempDir()
	host, guard := claimHost(t)
	t.Cleanup(func() { guard.Close() })
	s := &Server{t: t, dir: dir, home: dir, options: o, Host: host}
	s.begin(s.run)
	if o.Controllers {
		s.run("kube-controller-manager", "--kubeconfig="+s.Kubeconfig, "--cloud-provider=external", "--allocate-node-cidrs=false",
			"--leader-elect=false", "--secure-port=0", "--use-service-account-credentials",
			"--service-account-private-key-file="+s.own("service-account.key"),
			"--controllers=*,bootstrap-signer-controller,token-cleaner-controller", // all there are
			"--node-monitor-grace-period=1h")                                       // there are no kubelets to renew leases
	}
	if o.Scheduler {
		s.run("kube-scheduler", "--kubeconfig="+s.Kubeconfig, "--leader-elect=false",
			"--bind-address="+s.Host, fmt.Sprintf("--secure-port=%d", schedulerPort))
	}
	return s
}

// begin writes what a control plane reads, starts the datastore and the API server, and waits until it serves.
func (s *Server) begin(run func(program string, args ...string) *Process) {
	s.t.Helper()
	s.write(s.own("tokens.csv"), adminToken+",admin,admin,system:masters\n")
	s.write(s.own("audit.yaml"), auditPolicy)
	s.writeServiceAccountKey()
	s.connect()
	s.store = s.startStore(run)
	s.server = run("kube-apiserver", s.serverFlags()...)
	s.waitReady()
}

// connect makes clients of the server.
func (s *Server) connect() {
	s.t.Helper()
	s.Config = &rest.Config{Host: s.URL(), BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Client, s.Kubeconfig = client, s.WriteKubeconfig("admin", adminToken)
}

// URL is where the server listens.
func (s *Server) URL() string { return fmt.Sprintf("https://%s:%d", s.Host, serverPort) }

func (s *Server) serverFlags() []string {
	return slices.Concat([]string{
		"--etcd-servers=" + s.storeURL(),
		"--bind-address=" + s.Host, fmt.Sprintf("--secure-port=%d", serverPort), "--cert-dir=" + s.own("certificates"),
		"--token-auth-file=" + s.own("tokens.csv"), "--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.own("service-account.key"),
		"--service-account-signing-key-file=" + s.own("service-account.key"),
		"--disable-admission-plugins=ServiceAccount", // pods of tests need no tokens
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}, s.audit(), s.options.Flags)
}

func (s *Server) waitReady() {
	s.t.Helper()
	s.Eventually(time.Minute, "the API server is ready", func(ctx context.Context) error {
		return s.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// StartServer starts the API server, as Start does, after StopServer.
func (s *Server) StartServer() {
	s.t.Helper()
	s.server = s.run("kube-apiserver", s.serverFlags()...)
	s.waitReady()
}

// StopServer kills the API server; the datastore keeps its data.
func (s *Server) StopServer() {
	s.restarted = true
	s.server.Kill()
}

// Eventually is the function of that name for the server's test.
func (s *Server) Eventually(limit time.Duration, what string, check func(context.Context) error) {
	s.t.Helper()
	Eventually(s.t, limit, what, check)
}

// Eventually waits until check returns no error, as wait.Within does, and fails the test with the
// last one when the time is over.
func Eventually(t testing.TB, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	if err := wait.Within(t.Context(), limit, 50*time.Millisecond, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// WriteKubeconfig writes a kubeconfig for a token and returns its file.
func (s *Server) WriteKubeconfig(user, token string) string {
	s.t.Helper()
	return s.WriteKubeconfigOf(s.URL(), user, token)
}

// WriteKubeconfigOf writes a kubeconfig for a token and something that stands before the
// server, and returns its file.
func (s *Server) WriteKubeconfigOf(url, user, token string) string {
	s.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: url, InsecureSkipTLSVerify: true}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: user}
	config.CurrentContext = "test"
	file := s.file(user + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// file is a file of this test's, own is one of the control plane's.
func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }
func (s *Server) own(name string) string  { return filepath.Join(s.home, name) }

func (s *Server) write(file, content string) {
	s.t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
