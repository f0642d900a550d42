package onlink

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wake"
)

// link is one link at work.
type link struct {
	responder *Responder
	log       logr.Logger
	wake      chan struct{} // something may be due earlier than it was
	quit      chan struct{}

	mu       sync.Mutex // covers what follows, and each frame that is sent
	config   Config
	vips     map[netip.Addr]*vip
	sorted   []netip.Addr // the keys of vips
	machines map[netip.Addr]*machine
	waiting  map[*waiter]bool
	doubted  time.Duration    // when all machines were asked again because of a stranger; zero: never
	stranger MAC              // that a question found then
	on       networkInterface // index 0: none
	ours     map[MAC]bool     // of all interfaces of this machine
	socket   *packetSocket    // nil: the link does not work
	groups   groups
	reason   lb.Reason
	detail   string
}

// vip is an address that is claimed or watched.
type vip struct {
	again        time.Duration // it was announced because another machine claims it, too
	claimed      bool
	announcement schedule
	defended     time.Duration // when it was last; zero: never
	conflict     Conflict
	tellAt       time.Duration // when to tell the conflict; zero: it is told
	named        MAC           // of the stranger that was told last
	heard        Heard
	notified     time.Duration // when a repetition was last told
	recheckAt    time.Duration // when to ask a stranger again
	onInterface  string
}

func newLink(r *Responder, where Link) *link {
	return &link{
		responder: r, log: r.options.Log.WithValues("subnet", where.Subnet.String()), wake: make(chan struct{}, 1), quit: make(chan struct{}),
		config: Config{Link: where}, vips: map[netip.Addr]*vip{}, machines: map[netip.Addr]*machine{}, waiting: map[*waiter]bool{},
		groups: groups{open: r.options.open},
	}
}

// set takes over a configuration. It reports whether the addresses of the interfaces have to
// be looked at: there are others to look for.
func (l *link) set(config Config) (look bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := uptime.Now()
	if look = l.config.Self != config.Self; look {
		l.fail(lb.NoInterface, "") // until place has found it
	}
	paceChanged := l.config.AnnounceEvery != config.AnnounceEvery
	l.config = config
	look = l.setVIPs(config, now) || look
	l.setMachines(config.Machines, now)
	if paceChanged {
		for _, v := range l.vips {
			v.announcement.setPace(config.AnnounceEvery, now)
		}
	}
	l.tune()
	l.work(now)
	l.nudge()
	return look
}

// setVIPs makes these the claimed and the watched, and reports whether there is a new one.
func (l *link) setVIPs(c Config, now time.Duration) (added bool) {
	want := map[netip.Addr]bool{}
	for _, a := range c.Claims {
		want[a] = true
	}
	for _, a := range c.Watched {
		want[a] = false
	}
	for addr, have := range l.vips {
		claim, kept := want[addr]
		if !kept {
			delete(l.vips, addr)
		}
		if have.claimed && !claim {
			l.log.Info("released the address", "address", addr.String())
			have.claimed, have.conflict, have.tellAt = false, Conflict{}, 0
		}
	}
	for addr, claim := range want {
		have := l.vips[addr]
		if have == nil {
			have = &vip{}
			l.vips[addr], added = have, true
		}
		if claim && !have.claimed {
			l.log.Info("claimed the address", "address", addr.String())
			have.claimed = true
			have.announcement.begin(now)
		}
	}
	l.sorted = slices.SortedFunc(maps.Keys(l.vips), netip.Addr.Compare)
	return added
}

// place puts the link onto the interface that has its address.
func (l *link) place(all *interfaces) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ours = map[MAC]bool{}
	for _, f := range all.byIndex {
		l.ours[f.mac] = true
	}
	for addr, v := range l.vips {
		l.noteOnInterface(addr, v, all)
	}
	now := uptime.Now()
	l.moveTo(all, now)
	l.tune()
	l.work(now)
	l.nudge()
}

func (l *link) noteOnInterface(addr netip.Addr, vip *vip, all *interfaces) {
	name := ""
	if f, found := all.with(addr); found {
		name = f.name
	}
	if name != vip.onInterface {
		vip.onInterface = name
		l.responder.notify()
	}
}

// moveTo opens a socket on the interface unless there is one, and begins announcements again
// when the interface, its MAC or its carrier are new.
func (l *link) moveTo(all *interfaces, now time.Duration) {
	was, reason := l.on, l.reason
	l.on = networkInterface{}
	nic, found := all.with(l.config.Self)
	switch {
	case !found:
		l.fail(lb.NoInterface, "no interface has "+l.config.Self.String())
	case !nic.ethernet || !nic.mac.isUnicast():
		l.fail(lb.NoInterface, nic.name+" is not an Ethernet interface")
	default:
		l.on = nic
		l.open(was)
	}
	if was == l.on && reason == l.reason {
		return
	}
	l.log.Info("changed the interface or the state of the link", "interface", l.on.name, "mac", l.on.mac.String(), "reason", l.reason, "detail", l.detail)
	l.responder.notify()
	if l.reason == "" {
		for _, v := range l.vips {
			v.announcement.begin(now)
		}
	}
}

// open makes sure of a socket on the link's interface.
func (l *link) open(was networkInterface) {
	if l.socket == nil || was.index != l.on.index || !l.socket.isOn(l.on.index) {
		l.shut()
		socket, err := listen(l.responder.options.open, l.on.index, l.etherType(), filter(l.audible(), l.config.Self.Is4()))
		if err != nil {
			l.fail(reasonOf(err), err.Error())
			return
		}
		l.socket, l.groups.index = socket, l.on.index
		l.responder.done.Go(func() { l.read(socket) })
	}
	l.reason, l.detail = "", ""
	if !l.on.carrier {
		l.reason, l.detail = lb.NoCarrier, l.on.name+" is down or has no carrier"
	}
}

// reasonOf returns the reason why a packet socket could not be opened.
func reasonOf(err error) lb.Reason {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return lb.CapabilityMissing
	}
	return lb.NoInterface
}

func (l *link) fail(reason lb.Reason, detail string) {
	l.shut()
	l.reason, l.detail = reason, detail
}

func (l *link) shut() {
	if l.socket != nil {
		l.socket.file.Close()
		l.socket = nil
	}
	l.groups.close()
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut()
	l.vips = nil
	close(l.quit)
}

func (l *link) etherType() uint16 {
	if l.config.Self.Is4() {
		return etherTypeARP
	}
	return etherTypeIPv6
}

// tune lets the kernel hand over what has to be heard, and no more.
func (l *link) tune() {
	if l.socket == nil {
		return
	}
	err := l.socket.setFilter(filter(l.audible(), l.config.Self.Is4()))
	if !l.config.Self.Is4() {
		want := map[netip.Addr]bool{}
		for addr, v := range l.vips {
			if v.claimed {
				want[solicitedNode(addr)] = true
			}
		}
		err = errors.Join(err, l.groups.set(want))
	}
	if err != nil {
		l.log.Error(err, "cannot hear all that the link has to")
	}
}

func (l *link) audible() audible {
	var heard audible
	for _, addr := range l.sorted {
		if l.vips[addr].claimed {
			heard.asked = append(heard.asked, addr)
		}
	}
	heard.asserted = l.sorted
	answered := slices.Collect(maps.Keys(l.machines))
	for w := range l.waiting {
		answered = append(answered, w.addr)
	}
	slices.SortFunc(answered, netip.Addr.Compare)
	heard.answered = slices.Compact(answered)
	return heard
}

func (l *link) isOn(f networkInterface) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.on.index == f.index
}

// uses reports whether an address that came to an interface or left it matters to the link.
func (l *link) uses(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ours := l.vips[addr]
	return ours || addr == l.config.Self
}

// read hears frames until the socket is closed.
func (l *link) read(socket *packetSocket) {
	buf := make([]byte, maxFrame)
	for {
		n, err := socket.file.Read(buf)
		switch {
		case err == nil:
			l.onFrame(socket, buf[:n])
		case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS):
			// of an interface that goes down; it may come back
		default:
			l.onReadError(socket, err)
			return
		}
	}
}

// onReadError ends what a socket that failed was for. It is opened again when the interfaces
// are looked at next.
func (l *link) onReadError(s *packetSocket, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket == s { // otherwise it was closed
		l.fail(lb.NoInterface, err.Error())
		l.log.Error(err, "lost the socket of the link")
		l.responder.notify()
	}
}

// onFrame observes a frame and answers it.
func (l *link) onFrame(socket *packetSocket, frame []byte) {
	packet, ok := parse(frame)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != socket {
		return
	}
	now := uptime.Now()
	if packet.asserts.IsValid() && !l.ours[packet.mac] {
		l.onAssertion(packet, now)
	}
	if answer := answerTo(packet, l.on.mac, l.claims); answer != nil && l.mayAnswer(now) {
		l.send(answer)
	}
}

func (l *link) claims(addr netip.Addr) bool {
	v := l.vips[addr]
	return v != nil && v.claimed
}

// mayAnswer reports whether the time until which claims are answered has not passed.
func (l *link) mayAnswer(now time.Duration) bool {
	until := l.responder.options.AnswersUntil
	return until == nil || now < until(l.config.Subnet)
}

// send sends a frame. One that fails is sent again, or asked for again by the host that lacks it.
func (l *link) send(frame []byte) {
	if l.socket != nil && l.reason == "" {
		if err := l.socket.send(frame); err != nil {
			l.log.V(1).Info("failed to send a frame", "error", err.Error())
		}
	}
}

// keepTime runs the work that is due until the link is closed.
func (l *link) keepTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-l.wake:
		case <-timer.C:
		}
		l.mu.Lock()
		now := uptime.Now()
		next := l.work(now)
		l.mu.Unlock()
		timer.Reset(max(next-now, 0))
	}
}

func (l *link) nudge() { wake.Up(l.wake) }

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// work sends the frames that are due now and returns the time at which some are due again.
func (l *link) work(now time.Duration) (next time.Duration) {
	next = now + time.Hour
	if l.socket == nil || l.reason != "" {
		return next
	}
	mayAnswer := l.mayAnswer(now)
	for _, addr := range l.sorted {
		if v := l.vips[addr]; v.claimed {
			next = min(next, l.announce(addr, v, now, mayAnswer), l.recheck(addr, v, now))
		}
	}
	for _, addr := range l.config.Machines {
		next = min(next, l.askMachine(addr, now))
	}
	return next
}
