//go:build privileged && timing

package bgp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// asOther makes this binary another speaker of the machine: plain GoBGP, as Talos, Cilium
// and kube-router have it. It is set to the router's number.
const asOther = "PLINTH_TEST_OTHER"

// asGraceful is the variable by which that speaker uses graceful restart.
const asGraceful = "PLINTH_TEST_GRACEFUL"

func TestOtherSpeakerProcess(t *testing.T) {
	var n int
	if _, err := fmt.Sscan(os.Getenv(asOther), &n); err != nil {
		return // only when started by otherGoBGP
	}
	var tor router
	tor.number(n)
	b := server.NewBgpServer()
	go b.Serve()
	must(t, b.StartBgp(t.Context(), &api.StartBgpRequest{Global: &api.Global{Asn: ourASN, RouterId: "10.99.0.77", ListenPort: -1}}))
	graceful := os.Getenv(asGraceful) != ""
	must(t, b.AddPeer(t.Context(), &api.AddPeerRequest{Peer: &api.Peer{
		Conf:            &api.PeerConf{NeighborAddress: tor.Addr4.String(), PeerAsn: routerASN},
		Timers:          &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, HoldTime: 9, KeepaliveInterval: 3}},
		Transport:       &api.Transport{LocalAddress: tor.Local4.String()},
		GracefulRestart: &api.GracefulRestart{Enabled: graceful, RestartTime: 30},
		AfiSafis: []*api.AfiSafi{{
			Config:            &api.AfiSafiConfig{Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: graceful}},
		}},
	}}))
	select {}
}

// otherSpeakers start another BGP speaker on this machine, with a session from the same
// address to a router as ours.
var otherSpeakers = map[string]func(*router, bool) *exec.Cmd{
	"gobgp": (*router).otherGoBGP, "bird": (*router).otherBIRD, "frr": (*router).otherFRR,
}

// otherGoBGP starts GoBGP as the other speaker.
func (r *router) otherGoBGP(graceful bool) *exec.Cmd {
	c := exec.Command("/proc/self/exe", "-test.run=^TestOtherSpeakerProcess$", "-test.timeout=10m")
	c.Env = append(os.Environ(), asAgent+"=other", fmt.Sprintf("%s=%d", asOther, r.n))
	if graceful {
		c.Env = append(c.Env, asGraceful+"=1")
	}
	return r.other(c)
}

// otherBIRD starts BIRD as the other speaker.
func (r *router) otherBIRD(graceful bool) *exec.Cmd {
	return r.otherBIRDThat(graceful, "passive off")
}

// otherBIRDThat starts BIRD with a further option.
func (r *router) otherBIRDThat(graceful bool, option string) *exec.Cmd {
	conf := filepath.Join(r.dir, "other.conf")
	must(r.t, os.WriteFile(conf, fmt.Appendf(nil, `router id 10.99.0.77;
protocol device { scan time 1; }
protocol bgp tor { local %v as %d; neighbor %v as %d; strict bind on; connect delay time 1; connect retry time 1; error wait time 1, 2; hold time 9;
 graceful restart %s; %s; ipv4 { import all; export none; }; }
`, r.Local4, ourASN, r.Addr4, routerASN, map[bool]string{true: "on", false: "off"}[graceful], option), 0o644))
	return r.other(exec.Command("bird", "-f", "-c", conf, "-s", filepath.Join(r.dir, "other.ctl"), "-P", filepath.Join(r.dir, "other.pid")))
}

// otherFRR starts FRR as the other speaker.
func (r *router) otherFRR(graceful bool) *exec.Cmd {
	dir := filepath.Join(r.dir, "other")
	must(r.t, os.MkdirAll(dir, 0o755))
	conf := filepath.Join(dir, "bgpd.conf")
	how := "bgp graceful-restart-disable"
	if graceful {
		how = "bgp graceful-restart"
	}
	must(r.t, os.WriteFile(conf, fmt.Appendf(nil, `router bgp %d
 bgp router-id 10.99.0.77
 %s
 no bgp ebgp-requires-policy
 timers bgp 3 9
 neighbor %v remote-as %d
 neighbor %v timers connect 1
 neighbor %v disable-connected-check
 neighbor %v update-source %v
`, ourASN, how, r.Addr4, routerASN, r.Addr4, r.Addr4, r.Addr4, r.Local4), 0o644))
	run(r.t, "chown", "-R", "frr:frrvty", dir)
	return r.other(exec.Command("/usr/lib/frr/bgpd", "-u", "frr", "-g", "frr", "--vty_socket", dir, "-f", conf, "-i", filepath.Join(dir, "bgpd.pid"), "-Z", "-p", "0", "-A", "127.0.0.1", "-P", "0"))
}

// other starts a program that ends with the test.
func (r *router) other(cmd *exec.Cmd) *exec.Cmd {
	r.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "other.out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(r.t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	must(r.t, cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestTheSessionOfAnotherProgramIsLeftToIt(t *testing.T) {
	for name, dialect := range dialects {
		for other, start := range otherSpeakers {
			for _, graceful := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, the other is %s, graceful restart %v", name, other, graceful), func(t *testing.T) {
					t.Parallel()
					n := neighbour{only4: true}
					if graceful {
						n.lines = dialect.lines
					}
					router := dialect.start(newRouter(t), n)
					first := start(router, graceful)
					eventually(t, 20*time.Second, "the other one has a session", router.established(1))
					sessions := func() string { // FRR counts End-of-RIB too, which comes later
						now, _ := router.counted()
						before, _, _ := strings.Cut(now, " Messages")
						return before
					}
					before := sessions()
					speaker, c := newSpeaker(t), configOf(plan(router.session4(), "203.0.113.10/32"))
					if !graceful {
						c.Sessions[0].Session.RestartTime = 0
					}
					must(t, speaker.Set(t.Context(), c))
					taken := func() (bool, string) {
						st := state(t, speaker, router)
						return st.Cause == SessionTaken && strings.Contains(st.Detail, "another program of this machine"), fmt.Sprint(st)
					}
					eventually(t, 10*time.Second, "the cause is named", taken)
					never(t, 12*time.Second, "the other one lost its session", func() (bool, string) {
						now := sessions()
						return now != before, fmt.Sprintf("before\n%s\nand now\n%s\n%v", before, now, state(t, speaker, router))
					})
					t.Log(state(t, speaker, router))

					must(t, first.Process.Kill())
					_ = first.Wait()
					begin := time.Now()
					isUp(t, speaker, 10*time.Second)
					t.Logf("up %v after the other one had ended", time.Since(begin))

					start(router, graceful)
					// FRR drops both for a new connection: it takes some turns on a busy machine, where
					// this process is too late to see the other's connection.
					since := time.Now()
					seen := state(t, speaker, router)
					eventually(t, 90*time.Second, "one of them has kept the session for 15 s, and we know which", func() (bool, string) {
						st := state(t, speaker, router)
						yes, _ := taken()
						if now := st; now.Losses != seen.Losses || now.Up != seen.Up || st.Up == yes {
							since, seen = time.Now(), now
						}
						return time.Since(since) > 15*time.Second, fmt.Sprint(st, st.Losses)
					})
					if seen.Losses > 6 || !graceful && seen.Losses > 0 {
						t.Errorf("the session was lost %d times", seen.Losses)
					}
					t.Log(state(t, speaker, router), seen.Losses)
				})
			}
		}
	}
}

func TestTheSessionThatARouterBeganWithAnotherProgramIsLeftToIt(t *testing.T) {
	t.Parallel()
	router := newRouter(t).frr(neighbour{only4: true})
	router.vtysh(fmt.Sprintf("router bgp %d", routerASN), fmt.Sprintf("no neighbor %v passive", router.Local4))
	other := router.otherBIRDThat(true, "passive on")
	eventually(t, 30*time.Second, "the other one has a session", router.established(1))
	speaker := newSpeaker(t)
	must(t, speaker.Set(t.Context(), configOf(plan(router.session4(), "203.0.113.10/32"))))
	end := fmt.Sprintf("%v:179 to %v:", router.Local4, router.Addr4)
	eventually(t, 10*time.Second, "the cause is named", func() (bool, string) {
		st := state(t, speaker, router)
		return st.Cause == SessionTaken && strings.Contains(st.Detail, end), fmt.Sprint(st)
	})
	never(t, 8*time.Second, "the other one lost its session", func() (bool, string) {
		now, _ := router.counted()
		return !strings.Contains(now, "Sessions:1 Dropped:0"), now
	})
	must(t, other.Process.Kill())
	_ = other.Wait()
	isUp(t, speaker, 15*time.Second)
}

func TestAConnectionOfAnotherProgramOverALinkIsOneOfThatLinkAlone(t *testing.T) {
	t.Parallel()
	router, elsewhere := newRouter(t).rogue("silence"), newRouter(t)
	machine, at := linkLocalIn(t, router.link), linkLocalIn(t, "eth0", "-n", router.ns)
	linkLocalIn(t, elsewhere.link)
	session := sessionTo("127.0.0.77")
	session.Local, session.RouterAddr, session.Port = netip.Addr{}, at.WithZone(router.link), 179
	if c, taken := heldByOther(session); taken {
		t.Fatal(c)
	}
	router.other(exec.Command("bash", "-c", fmt.Sprintf("until exec 3<>/dev/tcp/%v/179; do :; done; exec sleep 600", session.RouterAddr)))
	eventually(t, 10*time.Second, "the connection is found", func() (bool, string) {
		c, taken := heldByOther(session)
		return taken && c.local.Addr() == machine && c.remote.Addr() == at, fmt.Sprint(c, taken)
	})
	session.RouterAddr = at.WithZone(elsewhere.link)
	if c, taken := heldByOther(session); taken {
		t.Errorf("%v is not on %s", c, elsewhere.link)
	}
}

// TestASessionThatTheRouterBeganEndsThoughAnotherProgramIsConnected has a session stand while GoBGP
// is about to connect as well.
func TestASessionThatTheRouterBeganEndsThoughAnotherProgramIsConnected(t *testing.T) {
	const listen = 11790
	here := netip.MustParseAddr("127.0.0.1")
	listener, err := net.Listen("tcp4", "127.0.17.1:0")
	must(t, err)
	defer listener.Close()
	router := netip.MustParseAddrPort(listener.Addr().String())
	speaker := NewSpeaker(Options{Log: logger(t), ListenPort: listen})
	t.Cleanup(func() { _ = speaker.Leave(context.Background()) })
	c := sessionTo(router.Addr().String())
	c.Local, c.Port, c.HoldTime, c.RestartTime, c.Families.IPv6 = here, router.Port(), 9*time.Second, time.Minute, false
	must(t, speaker.Set(t.Context(), configOf(plan(c, "203.0.113.10/32"))))
	attempt, err := listener.Accept()
	must(t, err)
	session, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: router.Addr().AsSlice()}}).Dial("tcp4", netip.AddrPortFrom(here, listen).String())
	must(t, err)
	open, err := gobgp.NewBGPOpenMessage(routerASN, 9, netip.MustParseAddr("10.99.0.99"), []gobgp.OptionParameterInterface{
		gobgp.NewOptionParameterCapability([]gobgp.ParameterCapabilityInterface{
			gobgp.NewCapMultiProtocol(gobgp.RF_IPv4_UC), gobgp.NewCapFourOctetASNumber(routerASN),
			gobgp.NewCapGracefulRestart(false, false, 60, []*gobgp.CapGracefulRestartTuple{gobgp.NewCapGracefulRestartTuple(gobgp.RF_IPv4_UC, true)}),
		}),
	})
	must(t, err)
	send(session, open)
	send(session, gobgp.NewBGPKeepAliveMessage())
	go func() { _, _ = io.Copy(io.Discard, session) }()
	isUp(t, speaker, 8*time.Second)
	connectElsewhere(t, listener.Addr())
	_, err = listener.Accept()
	must(t, err)
	must(t, attempt.Close())    // of the two the router keeps its own
	time.Sleep(3 * time.Second) // GoBGP is about to connect again
	must(t, session.Close())
	for begin := time.Now(); speaker.State(t.Context())[0].Up; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 12*time.Second {
			t.Fatal("it is up still, over a connection that has been closed:", speaker.State(t.Context())[0])
		}
	}
}
