package vip

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"plinth.dev/plinth/durable"
	"plinth.dev/plinth/inventory"
)

// The file of --state-dir, and how often it is written: soon after a claim has changed,
// now and then when only time went on, and at once, as the last word, when the cluster
// does not answer any more.
const (
	recollectionName = "claims.json"
	writtenEvery     = 2 * time.Second
	agedEvery        = time.Minute
	writtenAgain     = time.Minute // after a failure

	writtenFormat = 1 // the number of the file's format; without one it is the first
)

// recollectionFile is where the recollection is written down; empty: nowhere.
func (o Options) recollectionFile() string {
	if o.StateDir == "" {
		return ""
	}
	return filepath.Join(o.StateDir, recollectionName)
}

// written is the recollection as it stands in its file.
type written struct {
	Format  int
	Version string // of the newest resource
	Claims  map[netip.Addr]remembered
	Before  map[netip.Addr]remembered `json:",omitempty"`
	BackAt  time.Time                 `json:",omitzero"`
}

// load remembers what this process's predecessor wrote down. Without it, or when it
// cannot be read, the recollection is empty.
func (r *recollection) load() {
	if r.file == "" {
		return
	}
	text, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var head struct{ Format int } // of a newer one all else may have another form
	var w written
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	switch {
	case err == nil && head.Format > writtenFormat:
		err = &inventory.NewerFormatError{Object: "file " + r.file, Format: strconv.Itoa(head.Format), Reads: writtenFormat}
	case err == nil:
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		r.log.Error("cannot read which VIPs were held before, and goes on without", "file", r.file, "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version, r.before, r.backAt = w.Version, w.Before, w.BackAt
	if w.Claims != nil {
		r.claims = w.Claims
	}
}

// edition tells apart what was written down when.
type edition struct {
	changes int
	version string
	at      time.Time
}

// keep writes the recollection down until ctx ends. A disk that is full, or hangs, is in
// nobody's way: nothing is locked meanwhile.
func (r *recollection) keep(ctx context.Context) {
	durable.RemoveParts(r.file)
	last := edition{at: r.now()}
	for {
		pause := writtenEvery
		if text, next := r.due(last); text != nil {
			if err := r.write(text); err != nil {
				r.log.Error("cannot write down which VIPs are held; will try again", "file", r.file, "err", err)
				pause = writtenAgain
			} else {
				last = next
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// due returns what is to be written down now; nil: nothing.
func (r *recollection) due(last edition) ([]byte, edition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := edition{r.changes, r.version, r.now()}
	aged := next.version != last.version && (r.silent || next.at.Sub(last.at) >= agedEvery)
	if next.changes == last.changes && !aged {
		return nil, last
	}
	text, err := json.Marshal(written{writtenFormat, r.version, r.claims, r.before, r.backAt})
	if err != nil {
		r.log.Error("cannot write down which VIPs are held", "err", err)
		return nil, last
	}
	return text, next
}

func (r *recollection) write(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(r.file), 0o700); err != nil {
		return err
	}
	return durable.Replace(r.file, text)
}
