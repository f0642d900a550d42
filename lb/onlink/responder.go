package onlink

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/wake"
)

// Options are the settings and dependencies of a [Responder] besides its links.
type Options struct {
	Log logr.Logger
	// AnswersUntil is a time on the clock of package uptime after which nothing is sent for
	// the claims of a subnet, unless it tells a later one by then. It must not call the
	// Responder. nil: claims are answered for ever.
	AnswersUntil func(subnet netip.Prefix) time.Duration

	open opener // nil: [unix.Socket]
}

// Responder answers on links. Its methods may be called at the same time.
type Responder struct {
	options Options
	kernel  kernel
	changed chan struct{}

	mu      sync.Mutex // covers what follows, and each look at the interfaces with what follows from it
	links   map[netip.Prefix]*link
	watched *os.File // notifications of the kernel; nil before the first Set
	closed  bool
	done    sync.WaitGroup
}

// ErrClosed is the error of a closed [Responder].
var ErrClosed = errors.New("the responder is closed")

// pollInterval is the interval at which interfaces are looked at without a notification, and a socket
// that could not be opened is tried again.
const pollInterval = 15 * time.Second

// New returns a responder that does nothing yet.
func New(options Options) *Responder {
	if options.open == nil {
		options.open = unix.Socket
	}
	return &Responder{options: options, kernel: kernel{open: options.open}, changed: make(chan struct{}, 1), links: map[netip.Prefix]*link{}}
}

// Set makes these the links and the claims. Once it has returned, nothing is sent for a claim
// that is not among them, and each new one has been announced once, where its link works:
// [Responder.State] tells. The error names what cannot be, and the rest is done.
func (r *Responder) Set(ctx context.Context, links []Config) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	valid, refused := validConfigs(links)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	for subnet, l := range r.links {
		if _, kept := valid[subnet]; !kept {
			l.close()
			delete(r.links, subnet)
			r.notify()
		}
	}
	moved := false
	for _, subnet := range slices.SortedFunc(maps.Keys(valid), netip.Prefix.Compare) {
		moved = r.setLink(valid[subnet]) || moved
	}
	err := r.watch()
	if moved {
		err = errors.Join(err, r.refresh())
	}
	return errors.Join(refused, err)
}

// setLink hands a link its configuration, and reports whether its addresses have to be looked
// for among those of the interfaces.
func (r *Responder) setLink(config Config) bool {
	link, known := r.links[config.Subnet]
	if !known {
		link = newLink(r, config.Link)
		r.links[config.Subnet] = link
		r.done.Go(link.keepTime)
	}
	return link.set(config) || !known
}

// refresh looks at the interfaces and puts each link onto its own.
func (r *Responder) refresh() error {
	if len(r.links) == 0 {
		return nil
	}
	all, err := r.kernel.interfaces()
	if err != nil {
		return err
	}
	for _, subnet := range slices.SortedFunc(maps.Keys(r.links), netip.Prefix.Compare) {
		r.links[subnet].place(all)
	}
	return nil
}

// watch begins to follow the interfaces, with the first link.
func (r *Responder) watch() error {
	if r.watched != nil || len(r.links) == 0 {
		return nil
	}
	f, err := r.kernel.notifications()
	if err != nil {
		return err
	}
	r.watched = f
	r.done.Go(func() { r.follow(f) })
	return nil
}

// follow refreshes whenever an interface or an address that matters has changed.
func (r *Responder) follow(notifications *os.File) {
	buf := make([]byte, 64<<10)
	for {
		_ = notifications.SetReadDeadline(time.Now().Add(pollInterval))
		size, err := notifications.Read(buf)
		r.mu.Lock()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, unix.ENOBUFS) {
			r.unwatch(err)
			r.mu.Unlock()
			return
		}
		// An error is the deadline, or says that notifications were lost.
		if !r.closed && (err != nil || r.concerns(buf[:size])) {
			if err := r.refresh(); err != nil {
				r.options.Log.Error(err, "cannot read the interfaces")
			}
		}
		r.mu.Unlock()
	}
}

// unwatch has the next Set follow the interfaces again, after an error of the socket.
func (r *Responder) unwatch(err error) {
	if !r.closed {
		r.options.Log.Error(err, "cannot follow the interfaces")
		r.watched.Close()
		r.watched = nil
	}
}

// concerns reports whether notifications are of an interface that a link is on, or of an
// address that one uses. Interfaces of pods come and go all the time.
func (r *Responder) concerns(b []byte) bool {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return true
	}
	for _, m := range messages {
		f, isLink := linkOf(m)
		addr, _, isAddr := addrOf(m)
		for _, l := range r.links {
			if isLink && l.isOn(f) || isAddr && l.uses(addr) {
				return true
			}
		}
	}
	return false
}

// link returns the link of a subnet; nil: none is set.
func (r *Responder) link(subnet netip.Prefix) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.links[subnet]
}

// State returns the state of each link, sorted by subnet.
func (r *Responder) State() []LinkState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []LinkState
	for _, subnet := range slices.SortedFunc(maps.Keys(r.links), netip.Prefix.Compare) {
		all = append(all, r.links[subnet].state())
	}
	return all
}

// Changed receives a value when [Responder.State] has changed. Of a claim that is heard again
// and again it tells once in a second.
func (r *Responder) Changed() <-chan struct{} { return r.changed }

func (r *Responder) notify() { wake.Up(r.changed) }

// Close falls silent on all links. It announces nothing: who takes over does.
func (r *Responder) Close() {
	r.mu.Lock()
	r.closed = true
	for subnet, l := range r.links {
		l.close()
		delete(r.links, subnet)
	}
	if r.watched != nil {
		r.watched.Close()
	}
	r.mu.Unlock()
	r.done.Wait()
}
