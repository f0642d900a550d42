package lb

const (
	// ServiceProxyLabel is on Services that another program serves than kube-proxy, and names it: apis.LabelServiceProxyName of
	// k8s.io/kubernetes. The EndpointSlice controller copies it to the slices of such a Service.
	ServiceProxyLabel = "service.kubernetes.io/service-proxy-name"
	// HeadlessLabel is on the EndpointSlices of headless Services, whose endpoints DNS alone names: v1.IsHeadlessService of k8s.io/api.
	HeadlessLabel = "service.kubernetes.io/headless"
)

// Proxy is the program that serves a Service on the machines, by the Service's labels. Its zero value is kube-proxy. It compares
// with ==, and any but those below is the name of a program.
type Proxy string

// Proxies that have no name. No label has such a value.
const (
	KubeProxy    Proxy = ""
	UnnamedProxy Proxy = "(unnamed)" // a label without a value says so
	NoProxy      Proxy = "(none)"    // the Service bears the label of headless ones, though it has an address
)

// ProxyOf reads the labels of a Service. kube-proxy leaves a Service alone that bears [ServiceProxyLabel], whatever its value
// is, and up to 1.35 one that bears [HeadlessLabel], too: since 1.36 it asks for that label at EndpointSlices alone
// (kubernetes/kubernetes#134623).
func ProxyOf(labels map[string]string) Proxy {
	name, other := labels[ServiceProxyLabel]
	_, headless := labels[HeadlessLabel]
	switch {
	case other && name == "":
		return UnnamedProxy
	case other:
		return Proxy(name)
	case headless:
		return NoProxy
	}
	return KubeProxy
}

// Reason returns the reason why kube-proxy leaves a Service alone; empty: it serves it.
func (p Proxy) Reason() Reason {
	switch p {
	case KubeProxy:
		return ""
	case NoProxy:
		return LabelledHeadless
	default: // a program, with a name or without
		return ServedByOtherProxy
	}
}

// Followers are the proxies that follow an EndpointSlice, as its labels say. The zero value: all do.
type Followers int

// The followers of an EndpointSlice.
const (
	AllProxies   Followers = iota
	OtherProxies           // all but kube-proxy
	NoProxies              // nobody serves endpoints of a headless Service
)

// FollowersOf reads the labels of an EndpointSlice. kube-proxy up to 1.35 asks for [ServiceProxyLabel] at EndpointSlices, too;
// since 1.36 it does not, and only slices that people write differ in that label from their Service. Here it counts
// for every version: what some kube-proxy does not see may lead nowhere.
func FollowersOf(labels map[string]string) Followers {
	_, other := labels[ServiceProxyLabel]
	_, headless := labels[HeadlessLabel]
	switch {
	case headless:
		return NoProxies
	case other:
		return OtherProxies
	}
	return AllProxies
}

// Include reports whether what serves a Service is among the followers of an EndpointSlice. Which slices another program
// follows, besides that it leaves those of headless Services alone, is its own business.
func (f Followers) Include(p Proxy) bool {
	return f == AllProxies || f == OtherProxies && p.Reason() == ServedByOtherProxy
}
