package advertise

// Endpoint is one endpoint of a Service, as its EndpointSlice tells of it. An
// endpoint that several slices list counts once; who reads them sees to that.
type Endpoint struct {
	Local       bool // on this machine
	Ready       bool // takes traffic
	Serving     bool // would, were it not for its end
	Terminating bool
}

// Worth orders what two slices say of one endpoint: that it can take traffic counts for
// more, whichever of them was updated last.
func (e Endpoint) Worth() int {
	switch {
	case e.Ready:
		return 2
	case e.Serving && e.Terminating:
		return 1
	}
	return 0
}

// Count counts what can take traffic the way kube-proxy does (KEP-1669): ready
// endpoints, or, where a place has none, those that serve while they terminate.
func Count(all []Endpoint) Endpoints {
	var ready, ending Endpoints
	for _, e := range all {
		switch {
		case e.Ready:
			ready.add(e)
		case e.Serving && e.Terminating:
			ending.add(e)
		}
	}
	ready.Ready = ready.Local > 0
	if !ready.Ready {
		ready.Local, ready.Terminating = ending.Local, ending.Local > 0 && ready.Any > 0
	}
	if ready.Any == 0 {
		ready.Any = ending.Any
	}
	return ready
}

func (n *Endpoints) add(e Endpoint) {
	n.Any++
	if e.Local {
		n.Local++
	}
}
