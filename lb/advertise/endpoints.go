package advertise

// Endpoint is one endpoint of a Service, as its EndpointSlice tells of it. An
// endpoint that several slices list counts once; who reads them sees to that.
type Endpoint struct {
	Local       bool // on this machine
	Ready       bool // takes traffic
	Serving     bool // would, were it not for its end
	Terminating bool
	NotFollowed bool // the Service's proxy does not follow its EndpointSlice, and does not know of it
}

// Worth is the degree to which the Service's proxy can pass traffic on to an endpoint.
type Worth int

// The worths, the least first.
const (
	WorthNothing     Worth = iota
	WorthNotFollowed       // it could take traffic, and the proxy does not know of it
	WorthEnding            // it serves while it terminates
	WorthReady
)

// Worth orders what two slices say of one endpoint: that it can take traffic counts for
// more, whichever of them was updated last.
func (e Endpoint) Worth() Worth {
	ending := e.Serving && e.Terminating
	switch {
	case e.NotFollowed && (e.Ready || ending):
		return WorthNotFollowed
	case e.Ready:
		return WorthReady
	case ending:
		return WorthEnding
	}
	return WorthNothing
}

// Count counts what can take traffic the way kube-proxy does (KEP-1669): ready
// endpoints, or, where a place has none, those that serve while they terminate.
func Count(all []Endpoint) Endpoints {
	var ready, ending Endpoints
	notFollowed := false
	for _, e := range all {
		switch e.Worth() {
		case WorthReady:
			ready.add(e)
		case WorthEnding:
			ending.add(e)
		case WorthNotFollowed:
			notFollowed = true
		case WorthNothing:
		}
	}
	ready.Ready = ready.Local > 0
	if !ready.Ready {
		ready.Local, ready.Terminating = ending.Local, ending.Local > 0 && ready.Any > 0
	}
	if ready.Any == 0 {
		ready.Any = ending.Any
	}
	ready.NotFollowed = notFollowed && ready.Any == 0
	return ready
}

func (n *Endpoints) add(e Endpoint) {
	n.Any++
	if e.Local {
		n.Local++
	}
}
