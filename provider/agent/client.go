package agent

import (
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// A connection that went silent is noticed within the sum of these, in seconds;
	// client-go's own defaults are 30 and 15.
	readIdleSeconds, pingSeconds = "10", "5"

	// requests a second to the API server: an agent watches, and seldom writes
	clientQPS, clientBurst = 20, 40

	protobuf = "application/vnd.kubernetes.protobuf"
)

// NewClient returns a client of the API server as agents have it. It sets the limits, the user agent and the
// encoding of config, and for the whole process after how long a silent connection is given up. Its error is one
// of config.
func NewClient(config *rest.Config) (kubernetes.Interface, error) {
	for k, v := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": readIdleSeconds, "HTTP2_PING_TIMEOUT_SECONDS": pingSeconds} {
		if os.Getenv(k) == "" {
			if err := os.Setenv(k, v); err != nil {
				return nil, err
			}
		}
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.UserAgent = "plinth-agent " + rest.DefaultKubernetesUserAgent()
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	return kubernetes.NewForConfig(config)
}
