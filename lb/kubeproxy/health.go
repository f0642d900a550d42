package kubeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// healthTimeout bounds one answer of a health check node port: it is on this machine.
const healthTimeout = 300 * time.Millisecond

// localHTTP never goes through a proxy, and keeps no connection: each port is of another
// Service.
var localHTTP = http.Client{
	Timeout:   healthTimeout,
	Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: healthTimeout}).DialContext},
}

// errNoHealthCheck means that none of the addresses has the health check node port open.
var errNoHealthCheck = errors.New("no health check node port answers")

// readyHere returns the number of endpoints of this machine that are ready, as kube-proxy has them in its
// rules: what its health check node port says at the first address that answers. Where
// nodePortAddresses is "primary" that is one of the Node's, otherwise any.
func readyHere(ctx context.Context, addrs []netip.Addr, port uint16) (int, error) {
	for _, a := range addrs {
		n, err := readyAt(ctx, "http://"+net.JoinHostPort(a.String(), strconv.Itoa(int(port))))
		if err == nil {
			return n, nil
		}
	}
	return 0, errNoHealthCheck
}

func readyAt(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := localHTTP.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	var said struct{ LocalEndpoints *int }
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<16)).Decode(&said); err != nil {
		return 0, err
	}
	if said.LocalEndpoints == nil {
		return 0, errNoHealthCheck // some other program's port
	}
	return *said.LocalEndpoints, nil
}
