package vip

// Controller gives Services their VIPs, and is the only writer of their statuses. A VIP is
// claimed by creating the IPAddress object of its name; the state follows what the API server
// says about these objects, and decides what to try next.
//
// It uses these verbs of the API:
//
//	networking.k8s.io ipaddresses       get list watch create patch delete
//	networking.k8s.io servicecidrs      list watch
//	                  nodes             list watch
//	                  namespaces        get list watch
//	                  services          get list watch
//	                  services/status   patch
//	                  events            create patch
//	                  configmaps        get create patch, of the name plinth-released in Plinth's namespace
//
// The finalizer of a Service is put on and taken off by way of services/status, too.
type Controller struct {
	*statuses
	linked   *stockBalancer
	released *releasedKeeper
	retained *retainedVIPs

	namespacesKnown func() bool // all of them; nil: nobody follows them

	loaded chan struct{} // closed when all claims are known: addresses may be released
	ready  chan struct{} // closed when the pools and the statuses are known, too: addresses may be given
}
