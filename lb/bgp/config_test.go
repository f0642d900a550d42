package bgp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

func TestAPasswordNeverShows(t *testing.T) {
	config := SessionConfig{Password: "correct horse"}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("set", "config", config, "password", config.Password)
	encoded, err := json.Marshal(struct{ P Password }{config.Password})
	if err != nil {
		t.Fatal(err)
	}
	tm := config.terms(netip.MustParseAddr("10.0.0.1"))
	for _, s := range []string{
		fmt.Sprint(config), fmt.Sprintf("%+v", config), fmt.Sprintf("%#v", config), fmt.Sprintf("%s %q %v", config.Password, config.Password, config.Password),
		fmt.Sprintf("%x", config.Password.String()), fmt.Sprintf("%+v %#v", tm, tm), logged.String(), string(encoded),
	} {
		if strings.Contains(s, "correct") {
			t.Errorf("the password shows: %s", s)
		}
	}
	if got := fmt.Sprint(Password("")); got != "" {
		t.Errorf("no password prints as %q", got)
	}
}

func TestTermsThatCannotWorkAreRefusedAndDoNotHarmTheOthers(t *testing.T) {
	secret := inventory.SecretKey{Secret: "bgp", Key: "tor"}
	tests := []struct {
		name   string
		change func(*Config)
		want   error
		cause  Cause
	}{
		{"no router ID", func(c *Config) { c.RouterID = netip.Addr{} }, ErrRouterID, Misconfigured},
		{"a router ID of IPv6", func(c *Config) { c.RouterID = netip.MustParseAddr("2001:db8::1") }, ErrRouterID, Misconfigured},
		{"a Secret without a password", func(c *Config) { c.Sessions[0].Session.Password = secret }, ErrPasswordMissing, PasswordMissing},
		{"a password that is too long", func(c *Config) { c.Sessions[0].Password = Password(strings.Repeat("x", 81)) }, ErrPasswordLength, Misconfigured},
		{"no families", func(c *Config) { c.Sessions[0].Session.Families = inventory.Families{} }, ErrTerms, Misconfigured},
		{"no AS", func(c *Config) { c.Sessions[0].Session.RouterASN = 0 }, ErrTerms, Misconfigured},
		{"no address", func(c *Config) { c.Sessions[0].Session.RouterAddr = netip.Addr{} }, ErrTerms, Misconfigured},
		{"a hold time of nothing", func(c *Config) { c.Sessions[0].Session.HoldTime = time.Second }, ErrTerms, Misconfigured},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			speaker := NewSpeaker(Options{Log: logger(t)})
			defer func() { _ = speaker.Leave(context.Background()) }()
			c := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{{SessionPlan: advertise.SessionPlan{Session: sessionTo("127.0.0.77")}}}}
			tt.change(&c)
			if err := speaker.Set(t.Context(), c); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if err := speaker.Set(t.Context(), c); !errors.Is(err, tt.want) {
				t.Errorf("the second time: error %v, want %v", err, tt.want)
			}
			st := speaker.State(t.Context())
			if len(st) != 1 || st[0].Up || st[0].Cause != tt.cause || st[0].Detail == "" {
				t.Errorf("state %v", st)
			}
		})
	}
}

func TestTwoSessionsToOneAddressAreAnError(t *testing.T) {
	speaker := NewSpeaker(Options{Log: logger(t)})
	one := SessionConfig{SessionPlan: advertise.SessionPlan{Session: sessionTo("127.0.0.77")}}
	one.Session.Local = netip.MustParseAddr("127.0.0.1")
	err := speaker.Set(t.Context(), Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{one, one}})
	if !errors.Is(err, ErrTwice) {
		t.Errorf("error %v", err)
	}
	if err := speaker.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if err := speaker.Set(t.Context(), Config{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after leaving: error %v", err)
	}
}

func TestTwoRoutersOfOneLinkLocalAddressAreAnErrorOnOneLinkAlone(t *testing.T) {
	session := func(router, addr string) SessionConfig {
		s := sessionTo("127.0.0.77")
		s.Router, s.RouterAddr, s.Local = router, netip.MustParseAddr(addr), netip.Addr{}
		return SessionConfig{SessionPlan: advertise.SessionPlan{Session: s}}
	}
	config, b := session("tor-a", "fe80::1%eth0"), session("tor-b", "fe80::1%eth0")
	byKey, keys, err := Config{Sessions: []SessionConfig{config, b}}.index()
	if !errors.Is(err, ErrTwice) || len(keys) != 1 || keys[0] != config.key() || len(byKey) != 1 {
		t.Errorf("on one link: sessions %v, error %v", keys, err)
	}
	want := "tor-b/fe80::1%eth0: two sessions to the same address of a router: tor-a has that link-local address on that interface too; give one of them another address, or another interface, as in fe80::1%IFACE"
	if err != nil && err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	_, keys, err = Config{Sessions: []SessionConfig{config, session("tor-b", "fe80::1%eth1"), session("tor-c", "fe80::2%eth0")}}.index()
	if err != nil || len(keys) != 3 {
		t.Errorf("on links of their own, or with addresses of their own: sessions %v, error %v", keys, err)
	}
}

func TestALinkLocalAddressWithoutItsInterfaceIsRefused(t *testing.T) {
	s := sessionTo("127.0.0.77")
	s.RouterAddr = netip.MustParseAddr("fe80::1")
	err := terms{RouterID: netip.MustParseAddr("10.0.0.1"), Session: s}.check()
	if want := "the session cannot be set up: the link-local address fe80::1 does not say on which interface; write fe80::1%IFACE"; !errors.Is(err, ErrTerms) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestOnlyWithAPortDoesAnybodyGetToConnect(t *testing.T) {
	listens := func(addr string) bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	session := func(router string) SessionConfig {
		s := sessionTo(router)
		s.Local, s.NextHop4, s.Families.IPv6 = netip.MustParseAddr("127.0.0.61"), netip.Addr{}, false
		return SessionConfig{SessionPlan: advertise.SessionPlan{Session: s}}
	}
	for _, port := range []int32{0, 10179} {
		speaker := NewSpeaker(Options{Log: logger(t), ListenPort: port})
		c := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{session("127.0.0.77"), session("127.0.0.78")}}
		if err := speaker.Set(t.Context(), c); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
		if got := listens("127.0.0.61:10179"); got != (port != 0) {
			t.Errorf("port %d: listens %v", port, got)
		}
		if listens("127.0.0.61:179") {
			t.Errorf("port %d: somebody listens on port 179", port)
		}
		if err := speaker.Leave(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
