package disk

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"plinth.dev/plinth/durable"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/sorted"
	"plinth.dev/plinth/uptime"
)

const (
	// StateFile has the inputs of the last plan.
	StateFile = "state.json"
	// AliveFile has the last sign of life of a process, and its time.
	AliveFile = "alive.json"

	// The formats of the two files: in state.json the number is called Version, as it was
	// before others had one. A file of a newer one is not read, and is written anew. That of
	// state.json is the number of the inventory in it: all else is as it was.
	stateVersion = document.ReadsFormat
	aliveFormat  = 1
	// followsWithin is how long after another process's last sign of life this one
	// counts as its restart. Routers keep routes for the restart time, a minute.
	followsWithin = 5 * time.Minute
	// keepsFor is for how long what was known before a reboot of the machine still
	// counts while the API server cannot be asked.
	keepsFor = 24 * time.Hour
	// bootsFor is how long after a boot nothing on the machine is sure to work yet.
	bootsFor = 5 * time.Minute
)

// Dir is the state directory.
type Dir struct {
	dir    string
	owner  Owner // this process's
	bootID string
	last   *savedState
}

// savedState is the state that was written last, and the file that it is in: somebody may delete it, empty it, or mount another
// volume over it.
type savedState struct {
	mu   sync.Mutex
	sum  [sha256.Size]byte
	file os.FileInfo // nil: nothing was written yet
}

// isThere reports whether the file in a folder is that which was written.
func (w *savedState) isThere(dir string) bool {
	w.mu.Lock()
	before := w.file
	w.mu.Unlock()
	if before == nil {
		return true // nothing was to be kept yet
	}
	now, err := os.Stat(filepath.Join(dir, StateFile))
	return err == nil && os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

// Open makes the state directory where it is missing, and removes what a process that was killed was writing.
func Open(dir string, self Owner) (Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Dir{}, fmt.Errorf("state directory: %w", err)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Dir{}, fmt.Errorf("boot ID: %w", err)
	}
	for _, name := range []string{StateFile, AliveFile} {
		durable.RemoveParts(filepath.Join(dir, name))
	}
	return Dir{dir: dir, owner: self, bootID: strings.TrimSpace(string(id)), last: new(savedState)}, nil
}

// alive is a process's sign of life. Up is the time since the machine booted,
// sleep included: no clock that somebody sets can move it.
type alive struct {
	Format int // 0: an older agent wrote this
	Owner  Owner
	BootID string
	Up     time.Duration
	Wall   time.Time
	// Drained is for how long the machine was being drained, or was drained, by then;
	// negative: it was not. nil: an older agent wrote this.
	Drained *time.Duration `json:",omitempty"`
	Lost    []netip.Addr   `json:",omitempty"` // routers, as in [lostRouters]
	Claims  []netip.Addr   `json:",omitempty"` // VIPs on links that it answered for
}

// Handover is the state that a sign of life hands over to the next process.
type Handover struct {
	Drained time.Duration       // how far a drain has come; negative: there is none
	Lost    map[netip.Addr]bool // routers
	Claims  []netip.Addr        // VIPs on links that are answered for
}

func (d Dir) now() alive {
	return alive{Format: aliveFormat, Owner: d.owner, BootID: d.bootID, Up: uptime.Now(), Wall: time.Now().UTC()}
}

// alive is a sign of life as of now.
func (d Dir) alive(last Handover) alive {
	s := d.now()
	s.Drained, s.Claims = &last.Drained, last.Claims
	s.Lost = slices.SortedFunc(maps.Keys(last.Lost), netip.Addr.Compare)
	return s
}

// WriteAlive leaves a sign of life as of now.
func (d Dir) WriteAlive(last Handover) error { return d.write(AliveFile, d.alive(last)) }

// PreviousRun is the state that is known of the process before this one.
type PreviousRun struct {
	Follows bool           // it was of this boot, and alive a moment ago
	Counts  bool           // what it left is young enough to go by
	Booted  bool           // the machine has booted since, or only lately
	Drained *time.Duration // as of now, as in [alive]; nil too where it does not follow
	Lost    []netip.Addr   // routers
	Claims  []netip.Addr   // VIPs on links
	Unread  error          // why nothing is known of it: a newer agent wrote it
}

// PreviousRun returns the state that is known of the process before this one.
func (d Dir) PreviousRun() PreviousRun {
	var last alive
	now := d.now()
	var head struct{ Format int }
	var newer error
	err := d.read(AliveFile, &head)
	if err == nil && head.Format > aliveFormat {
		newer = newerFile(d.dir, AliveFile, head.Format, aliveFormat)
	} else {
		err = d.read(AliveFile, &last)
	}
	switch {
	case newer != nil, err != nil, last.Owner.conflict(d.owner) != "":
		return PreviousRun{Booted: now.Up < bootsFor, Unread: newer}
	case last.BootID != now.BootID:
		return PreviousRun{Counts: isAge(now.Wall.Sub(last.Wall), keepsFor), Booted: true, Lost: last.Lost}
	}
	run := PreviousRun{Counts: true, Follows: isAge(now.Up-last.Up, followsWithin), Lost: last.Lost, Claims: last.Claims}
	if run.Follows && last.Drained != nil {
		run.Drained = last.Drained
		if *run.Drained >= 0 {
			*run.Drained += now.Up - last.Up
		}
	}
	return run
}

// isAge reports whether something is younger than a limit. What is yet to come has no age:
// a machine whose clock has no battery begins at the same day after every boot, and took
// what it had written a month before for young.
func isAge(d, limit time.Duration) bool { return d >= 0 && d < limit }

// saved is inputs as they stand on disk. Passwords are among them: a session needs
// its own when the API server is away. The file is its owner's alone.
type saved struct {
	Version   int
	Owner     Owner
	Inventory string
	Self      plan.Node
	Nodes     []*routing.Node
	Offers    []savedOffer
	Passwords []savedPassword
	Answered  []netip.Prefix `json:",omitzero"` // nil: an older agent wrote this, which answered for all pools
	Taken     []netip.Prefix `json:",omitempty"`
}

// savedOffer is an offer, in a form that could hold several VIPs: older agents wrote
// them so, and read no other.
type savedOffer struct {
	Service      lb.ServiceKey
	VIPs         []netip.Addr
	LocalTraffic bool
	Endpoints    advertise.Endpoints
	Frontend     advertise.Frontend `json:",omitzero"`
	// RulesPending is set where the VIP was not announced, for kube-proxy's rules. Older agents
	// wrote it of none, and announced all.
	RulesPending bool             `json:",omitempty"`
	RulesSeen    bool             `json:",omitempty"` // kube-proxy had its rules
	Labels       advertise.Labels `json:",omitempty"`
	Link         advertise.OnLink `json:",omitzero"`
}

func saveOffers(all, passed sorted.List[advertise.Offer]) []savedOffer {
	out := make([]savedOffer, 0, all.Len())
	for o := range all.All() {
		p, _ := passed.Next(o)
		if p.Compare(o) != 0 {
			p = advertise.Offer{}
		}
		out = append(out, savedOffer{o.Service, []netip.Addr{o.VIP}, o.LocalTraffic, o.Endpoints, o.Frontend, p.RulesPending, p.RulesSeen, o.Labels, o.Link})
	}
	return out
}

func loadOffers(all []savedOffer) sorted.List[advertise.Offer] {
	out := make([]advertise.Offer, 0, len(all))
	for _, o := range all {
		for _, vip := range o.VIPs {
			out = append(out, advertise.Offer{Service: o.Service, VIP: vip, LocalTraffic: o.LocalTraffic, Endpoints: o.Endpoints, Frontend: o.Frontend, RulesPending: o.RulesPending, RulesSeen: o.RulesSeen, Labels: o.Labels, Link: o.Link})
		}
	}
	return sorted.Of(out...)
}

type savedPassword struct {
	Key   inventory.SecretKey
	Value []byte
}

// Save writes the inputs, unless they are on disk.
func (d Dir) Save(in plan.Inputs) error {
	s := saved{Version: document.StoredFormat(in.Inventory), Owner: d.owner, Inventory: string(document.FormatAccepted(in.Inventory)), Self: in.Self, Nodes: in.Nodes, Offers: saveOffers(in.Offers, in.Passed), Answered: in.Answered, Taken: in.Taken}
	for k, v := range in.Passwords {
		s.Passwords = append(s.Passwords, savedPassword{k, []byte(v)})
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if d.last.is(sum) && d.last.isThere(d.dir) {
		return nil
	}
	d.last.forget() // nobody is to miss the file that is about to go
	if err := d.replace(StateFile, data); err != nil {
		return err
	}
	file, err := os.Stat(filepath.Join(d.dir, StateFile))
	if err != nil {
		return err
	}
	d.last.mu.Lock()
	defer d.last.mu.Unlock()
	d.last.sum, d.last.file = sum, file
	return nil
}

func (w *savedState) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file = nil
}

func (w *savedState) is(sum [sha256.Size]byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.file != nil && w.sum == sum
}

// Errors of load.
var (
	errNoState    = errors.New("there is no state that counts")
	ErrOtherOwner = fmt.Errorf("%w here", errNoState)
)

// Load reads the inputs that were saved last, by this Node on this machine: [ErrOtherOwner] says that they are another's.
func (d Dir) Load() (plan.Inputs, error) {
	var head struct{ Version int } // of another version all else may have another form
	var loaded saved
	err := d.read(StateFile, &head)
	switch {
	case err == nil && head.Version > stateVersion:
		err = newerFile(d.dir, StateFile, head.Version, stateVersion)
	case err == nil && head.Version < 1:
		err = fmt.Errorf("version %d", head.Version)
	case err == nil:
		err = d.read(StateFile, &loaded)
	}
	if err != nil {
		return plan.Inputs{}, fmt.Errorf("%w: %w", errNoState, err)
	}
	loaded.Owner.Node = cmp.Or(loaded.Owner.Node, loaded.Self.Name) // an older agent wrote no owner
	if what := loaded.Owner.conflict(d.owner); what != "" {
		return plan.Inputs{}, fmt.Errorf("%w: %s: %s", ErrOtherOwner, filepath.Join(d.dir, StateFile), what)
	}
	inv, problems := document.ParseAccepted(document.Document{Source: filepath.Join(d.dir, StateFile), Data: []byte(loaded.Inventory)})
	if err := problems.Err(); err != nil {
		return plan.Inputs{}, fmt.Errorf("%w: %w", errNoState, err)
	}
	loaded.Nodes = slices.DeleteFunc(loaded.Nodes, func(n *routing.Node) bool { return n == nil }) // the file was damaged
	slices.SortFunc(loaded.Nodes, plan.CompareNames)                                               // an older agent wrote them in another order
	isInvalid := func(p netip.Prefix) bool { return !p.IsValid() }                                 // damaged, too
	loaded.Answered, loaded.Taken = slices.DeleteFunc(loaded.Answered, isInvalid), slices.DeleteFunc(loaded.Taken, isInvalid)
	in := plan.Inputs{Inventory: inv, Self: loaded.Self, Nodes: loaded.Nodes, Offers: loadOffers(loaded.Offers), Answered: loaded.Answered, Taken: loaded.Taken, Passwords: map[inventory.SecretKey]bgp.Password{}}
	for _, p := range loaded.Passwords {
		in.Passwords[p.Key] = bgp.Password(p.Value)
	}
	return in, nil
}

func newerFile(dir, name string, format, reads int) error {
	return &inventory.NewerFormatError{Object: "file " + filepath.Join(dir, name), Format: strconv.Itoa(format), Reads: reads}
}

func (d Dir) read(name string, into any) error {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func (d Dir) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return d.replace(name, b)
}

// replace writes a file of the state directory, which it makes again where somebody has deleted it.
func (d Dir) replace(name string, b []byte) error {
	err := durable.Replace(filepath.Join(d.dir, name), b)
	if errors.Is(err, os.ErrNotExist) && os.MkdirAll(d.dir, 0o700) == nil {
		err = durable.Replace(filepath.Join(d.dir, name), b)
	}
	return err
}
