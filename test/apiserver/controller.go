package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/components"
)

// ControllerName is what Plinth's controller manager is called: as a program,
// in its log, as a user agent and as a service account.
const ControllerName = "plinth-cloud-controller-manager"

// namespace is where deploy/ puts Plinth.
const namespace = "kube-system"

// built is the controller manager that Main has built.
var built string

// Main finds or builds the controller manager, runs the tests of a package and returns
// their exit code. It is what a TestMain calls whose tests call NewController.
func Main(m *testing.M) (code int) {
	folder, err := os.MkdirTemp("", "plinth-controller-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if built, err = components.Plinths(context.Background(), ControllerName, folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer servers.close()
	return m.Run()
}

// Controller is an API server with Plinth's controller manager beside it, which
// runs with the rights that deploy/ gives it and no more.
type Controller struct {
	*Server
	Limited string // kubeconfig file, with the rights of the controller manager
}

// NewController gives the test a server of its own until it ends, and the controller
// manager its rights there; Start runs it. The test fails in its end if a right was
// missing. A server without options is one that earlier tests had, as it was at first.
func NewController(t testing.TB, o Options) *Controller {
	t.Helper()
	if o.plain() {
		c := servers.take(t)
		t.Cleanup(c.checkLog)
		return c
	}
	c := &Controller{Server: Start(t, o)}
	c.giveRights()
	t.Cleanup(c.checkLog)
	return c
}

// giveRights gives the controller manager the rights that deploy/ gives it, and returns its token.
func (c *Controller) giveRights() (token string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "the server has all that it makes by itself", c.complete)
	c.ApplyRights("rbac-ccm.yaml")
	token = c.AccountToken(ControllerName)
	c.Limited = c.WriteKubeconfig("ccm", token)
	return token
}

// complete is an error as long as the API server has not made all objects that it makes by itself.
func (s *Server) complete(ctx context.Context) error {
	var all []error
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		_, err := s.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		all = append(all, err)
	}
	_, err1 := s.Client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	_, err2 := s.Client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	return errors.Join(append(all, err1, err2)...)
}

// LimitedIn returns a kubeconfig file with the rights that a controller manager in a namespace has, where
// kube-system and it have an installation side by side.
func (c *Controller) LimitedIn(own string) string {
	c.t.Helper()
	if own == namespace {
		return c.Limited
	}
	file := c.file("ccm-" + own + ".kubeconfig")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	root, err := components.Root()
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "base", "rbac-ccm.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(c.file("rbac-"+own+".yaml"), beside(string(text), own))
	c.Kubectl("create", "namespace", own)
	c.Kubectl("apply", "-f", c.file("rbac-"+own+".yaml"))
	return c.WriteKubeconfig("ccm-"+own, c.AccountTokenIn(own, ControllerName))
}

// beside returns the rights of deploy/base for another namespace, in bindings of other names, as the
// chart makes them with the value fullnameOverride.
func beside(rights, own string) string {
	objects := strings.Split(rights, "\n---\n")
	for i, object := range objects {
		bound := strings.Contains(object, "kind: ClusterRoleBinding\n") || strings.Contains(object, ControllerName+"-auth\n")
		if bound {
			object = strings.Replace(object, "  name: "+ControllerName, "  name: "+own+"-"+ControllerName, 1)
		}
		if !strings.Contains(object, "extension-apiserver-authentication-reader") {
			object = strings.Replace(object, "  namespace: "+namespace, "  namespace: "+own, 1)
		}
		objects[i] = strings.ReplaceAll(object, "namespace: "+namespace+"}", "namespace: "+own+"}")
	}
	return strings.Join(objects, "\n---\n")
}

// ApplyRights applies a file of deploy/base.
func (s *Server) ApplyRights(file string) {
	s.t.Helper()
	root, err := components.Root()
	if err != nil {
		s.t.Fatal(err)
	}
	s.Kubectl("apply", "-f", filepath.Join(root, "deploy", "base", file))
}

// AccountToken returns a token of a service account in namespace kube-system.
func (s *Server) AccountToken(account string) string {
	s.t.Helper()
	return s.AccountTokenIn(namespace, account)
}

// AccountTokenIn returns a token of a service account.
func (s *Server) AccountTokenIn(namespace, account string) string {
	s.t.Helper()
	answer, err := s.Client.CoreV1().ServiceAccounts(namespace).CreateToken(s.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Status.Token
}

// Start runs a controller manager, which Main has built, with more flags than it
// needs to find its server, and returns what kills it.
func (c *Controller) Start(flags ...string) (stop func()) {
	c.t.Helper()
	return c.Launch(flags...).Kill
}

// Launch is Start, for tests that do more than kill it.
func (c *Controller) Launch(flags ...string) *Process {
	c.t.Helper()
	if built == "" {
		c.t.Fatal("there is no controller manager to start: TestMain is to call apiserver.Main")
	}
	return c.Spawn(built, append([]string{"--kubeconfig=" + c.Limited, "--secure-port=0", "--leader-elect=false"}, flags...)...)
}

// Written returns what the controller manager wrote since the first n writes,
// but Events.
func (c *Controller) Written(since int) []Write {
	c.t.Helper()
	var out []Write
	for _, w := range c.Writes()[since:] {
		if w.Agent == ControllerName && w.Resource != "events" {
			out = append(out, w)
		}
	}
	return out
}

// checkLog fails the test if the controller manager lacked a right or panicked.
func (c *Controller) checkLog() {
	for line := range strings.Lines(c.Log(ControllerName)) {
		starting := strings.Contains(line, "error from a previous attempt") || c.restarted // the server has yet to read its roles
		switch {
		case strings.Contains(line, "forbidden") && !starting:
			c.t.Errorf("the shipped role does not allow all that the controller manager does: %s", line)
		case strings.Contains(line, "panic"):
			c.t.Errorf("the controller manager panicked: %s", line)
		}
	}
}
