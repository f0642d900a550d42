package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
)

// Asker asks on a subnet who has addresses, by ARP and neighbour solicitation, as a host does
// whose cache is empty, again and again, and notes every answer.
type Asker struct {
	stop  context.CancelFunc
	runs  sync.WaitGroup
	mu    sync.Mutex
	asked []Asked
}

// Asked is one question and what was answered to it.
type Asked struct {
	At      time.Time
	Address netip.Addr
	Answers []Told
}

// Told is one answer.
type Told struct {
	MAC  MAC
	Took time.Duration // from just before the question was sent
}

// MACs are those that answered, each once, sorted.
func (a Asked) MACs() []MAC {
	var macs []MAC
	for _, t := range a.Answers {
		macs = append(macs, t.MAC)
	}
	slices.SortFunc(macs, func(a, b MAC) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(macs)
}

// AskFrom begins to ask from a host of a rack for each of the addresses, every so often, from
// addresses of the host's own. An answer belongs to the latest question for its address.
func (l *Lab) AskFrom(ctx context.Context, host string, every time.Duration, addrs ...netip.Addr) (*Asker, error) {
	q := questioner{self: l.Topology.HostAddress(host)}
	if err := q.open(l.Namespace(host)); err != nil {
		return nil, fmt.Errorf("asking from %s: %w", host, err)
	}
	ctx, stop := context.WithCancel(ctx)
	a := &Asker{stop: stop}
	a.runs.Go(func() { a.listen(ctx, q) })
	a.runs.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			for _, addr := range addrs {
				a.mu.Lock() // no answer is read before the question is noted
				a.asked = append(a.asked, Asked{At: time.Now(), Address: addr})
				_ = q.ask(addr) // a host without carrier gets no answer either
				a.mu.Unlock()
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	context.AfterFunc(ctx, func() {
		a.runs.Wait()
		unix.Close(q.fd)
	})
	return a, nil
}

func (a *Asker) listen(ctx context.Context, q questioner) {
	buffer, control := make([]byte, 2048), make([]byte, 128)
	for ctx.Err() == nil {
		b, at, ok := receive(q.fd, buffer, control)
		if !ok {
			continue
		}
		f := parse(b)
		f.At = at
		a.note(f, q)
	}
}

// note takes what may be an answer to one of our questions.
func (a *Asker) note(f Frame, q questioner) {
	if f.Asker != q.self.V4 && f.Asker != q.self.V6 || !f.Kind.Answers() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.asked) - 1; i >= 0; i-- {
		if one := &a.asked[i]; one.Address == f.Address {
			one.Answers = append(one.Answers, Told{f.Where, f.At.Sub(one.At)})
			return
		}
	}
}

// Stop ends the asker, and returns what it has asked, in the order of time.
func (a *Asker) Stop() []Asked {
	a.stop()
	a.runs.Wait()
	return a.Asked()
}

// Asked is what was asked and answered so far, in the order of time.
func (a *Asker) Asked() []Asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.asked)
	for i := range all {
		all[i].Answers = slices.Clone(all[i].Answers)
	}
	return all
}

// Take returns what was asked before a point in time, and forgets it.
func (a *Asker) Take(before time.Time) []Asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := slices.IndexFunc(a.asked, func(one Asked) bool { return !one.At.Before(before) })
	if n < 0 {
		n = len(a.asked)
	}
	taken := a.asked[:n:n]
	a.asked = slices.Clone(a.asked[n:])
	return taken
}

// Owners are the hosts of a rack that answer for an address when another one asks, see OwnersOf.
func (l *Lab) Owners(ctx context.Context, asker string, addr netip.Addr) ([]string, error) {
	owners, err := l.OwnersOf(ctx, asker, addr)
	return owners[addr], err
}

// OwnersOf are the hosts of a rack that answer for each address when another one asks, within a
// tenth of a second, sorted. A MAC that is no host's stands for itself.
func (l *Lab) OwnersOf(ctx context.Context, asker string, addrs ...netip.Addr) (map[netip.Addr][]string, error) {
	a, err := l.AskFrom(ctx, asker, time.Minute, addrs...)
	if err != nil {
		return nil, err
	}
	patient, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	<-patient.Done()
	cancel()
	hosts, err := l.MACs()
	owners := map[netip.Addr][]string{}
	for _, one := range a.Stop() {
		owners[one.Address] = hostsOf(one.MACs(), hosts)
	}
	return owners, errors.Join(err, ctx.Err())
}

func hostsOf(macs []MAC, hosts map[MAC]string) []string {
	var names []string
	for _, m := range macs {
		name, known := hosts[m]
		if !known {
			name = m.String()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// WaitOwner waits until exactly one host answers for an address when another one asks; where
// hosts are given, one of them. It returns which.
func (l *Lab) WaitOwner(ctx context.Context, asker string, addr netip.Addr, of ...string) (owner string, err error) {
	err = Within(ctx, 10*time.Second, func(ctx context.Context) error {
		owners, err := l.Owners(ctx, asker, addr)
		if err == nil && (len(owners) != 1 || len(of) > 0 && !slices.Contains(of, owners[0])) {
			err = fmt.Errorf("%v answer for %s, want one of %v", owners, addr, of)
		}
		if err == nil {
			owner = owners[0]
		}
		return err
	})
	return owner, err
}

// MACs are the hardware addresses that hosts have in their racks.
func (l *Lab) MACs() (map[MAC]string, error) {
	macs := map[MAC]string{}
	for _, rack := range l.Topology.Racks {
		for _, host := range l.Others(rack.Name) {
			out, err := netns.Output(context.Background(), l.Namespace(host), "ip", "-j", "link")
			if err != nil {
				return nil, err
			}
			var links []struct{ Address string }
			if err := json.Unmarshal([]byte(out), &links); err != nil {
				return nil, fmt.Errorf("links of %s: %w", host, err)
			}
			for _, k := range links {
				if hw, err := net.ParseMAC(k.Address); err == nil && len(hw) == 6 {
					macs[MAC(hw)] = host
				}
			}
		}
	}
	return macs, nil
}
